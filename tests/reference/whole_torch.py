# whole_torch.py: the models of models/ in plain PyTorch, with the same names of parameters. Used by `whole.py make` alone.
# SPDX-License-Identifier: MIT
import math

import torch
from torch import nn
from torch.nn import functional as F


def attend(q, k, v, hidden=0.0):
    return torch.softmax(q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1]) + hidden, -1) @ v


def split(x, heads):
    return x.view(x.shape[0], x.shape[1], heads, -1).transpose(1, 2)


def joined(x):
    return x.transpose(1, 2).flatten(2)


def holder(**parts):
    m = nn.Module()
    for name, part in parts.items():
        setattr(m, name, nn.ModuleList(part) if isinstance(part, list) else part)
    return m


class Digits(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers, self.head = nn.ModuleList([nn.Linear(64, 12), nn.Linear(12, 8)]), nn.Linear(8, 10)

    def forward(self, x):
        for layer in self.layers:
            x = F.relu(layer(x))
        return self.head(x)


class LeNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(1, 4, 5, padding=2), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2),
                                      nn.Conv2d(4, 6, 5), nn.BatchNorm2d(6), nn.ReLU(), nn.MaxPool2d(2))
        self.classifier = nn.Sequential(nn.Linear(150, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 10))

    def forward(self, x):
        return self.classifier(self.features(x).flatten(1))


class GCNConv(nn.Module):
    def __init__(self, nin, nout):
        super().__init__()
        self.lin, self.bias = nn.Linear(nin, nout, bias=False), nn.Parameter(torch.zeros(nout))

    def forward(self, x, table):
        return table @ self.lin(x) + self.bias


class GCN(nn.Module):
    """The graph as a matrix."""
    known = [[1, 2], [2], [3, 4], [5], [5], []]

    def __init__(self):
        super().__init__()
        self.first, self.second = GCNConv(6, 5), GCNConv(5, 2)
        a = torch.eye(6)
        for i, row in enumerate(self.known):
            for j in row:
                a[i, j] = a[j, i] = 1
        scale = a.sum(0).rsqrt()
        self.table = scale[:, None] * a * scale

    def forward(self, members):
        h = torch.tanh(self.first(torch.eye(6), self.table))
        return self.second(h, self.table)[members]


class Block(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.qkv, self.proj = nn.LayerNorm(dim), nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.norm2, self.mlp = nn.LayerNorm(dim), nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))

    def forward(self, x):
        t = x.shape[1]
        q, k, v = (split(y, self.heads) for y in self.qkv(self.norm1(x)).chunk(3, -1))
        x = x + self.proj(joined(attend(q, k, v, torch.full((t, t), -torch.inf).triu(1))))
        return x + self.mlp(self.norm2(x))


class GPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.table, self.places = nn.Embedding(11, 8), nn.Embedding(8, 8)
        self.blocks, self.norm = nn.ModuleList([Block(8, 2), Block(8, 2)]), nn.LayerNorm(8)
        self.head = nn.Linear(8, 11, bias=False)
        self.head.weight = self.table.weight

    def forward(self, letters):
        x = self.table(letters) + self.places(torch.arange(letters.shape[1]))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


class BERT(nn.Module):
    heads = 2

    def __init__(self):
        super().__init__()

        def output(n):
            return holder(dense=nn.Linear(n, 8), LayerNorm=nn.LayerNorm(8, 1e-12))

        def layer():
            own = holder(query=nn.Linear(8, 8), key=nn.Linear(8, 8), value=nn.Linear(8, 8))
            return holder(attention=holder(self=own, output=output(8)), intermediate=holder(dense=nn.Linear(8, 32)),
                          output=output(32))

        e = holder(word_embeddings=nn.Embedding(11, 8), position_embeddings=nn.Embedding(8, 8),
                   token_type_embeddings=nn.Embedding(2, 8), LayerNorm=nn.LayerNorm(8, 1e-12))
        self.bert = holder(embeddings=e, encoder=holder(layer=[layer(), layer()]))
        self.cls = holder(predictions=holder(transform=output(8)))
        self.cls.predictions.bias = nn.Parameter(torch.zeros(11))

    def forward(self, tokens, types, there):
        e = self.bert.embeddings
        places = e.position_embeddings(torch.arange(tokens.shape[1]))
        x = e.LayerNorm(e.word_embeddings(tokens) + e.token_type_embeddings(types) + places)
        hidden = torch.where(there, 0.0, -torch.inf)[:, None, None]
        for l in self.bert.encoder.layer:
            own = l.attention.self
            y = attend(split(own.query(x), 2), split(own.key(x), 2), split(own.value(x), 2), hidden)
            x = l.attention.output.LayerNorm(x + l.attention.output.dense(joined(y)))
            x = l.output.LayerNorm(x + l.output.dense(F.gelu(l.intermediate.dense(x))))
        p = self.cls.predictions
        x = p.transform.LayerNorm(F.gelu(p.transform.dense(x)))
        return F.linear(x, e.word_embeddings.weight, p.bias)


class ViT(nn.Module):
    def __init__(self):
        super().__init__()

        def block():
            return holder(norm1=nn.LayerNorm(8, 1e-6), attn=holder(qkv=nn.Linear(8, 24), proj=nn.Linear(8, 8)),
                          norm2=nn.LayerNorm(8, 1e-6), mlp=holder(fc1=nn.Linear(8, 32), fc2=nn.Linear(32, 8)))

        self.cls_token, self.pos_embed = nn.Parameter(torch.zeros(1, 1, 8)), nn.Parameter(torch.zeros(1, 5, 8))
        self.patch_embed = holder(proj=nn.Conv2d(2, 8, 3, stride=3))
        self.blocks, self.norm, self.head = nn.ModuleList([block(), block()]), nn.LayerNorm(8, 1e-6), nn.Linear(8, 3)

    def forward(self, x):
        z = self.patch_embed.proj(x).flatten(2).transpose(1, 2)
        z = torch.cat([self.cls_token.expand(len(x), 1, 8), z], 1) + self.pos_embed
        for b in self.blocks:
            q, k, v = (split(y, 2) for y in b.attn.qkv(b.norm1(z)).chunk(3, -1))
            z = z + b.attn.proj(joined(attend(q, k, v)))
            z = z + b.mlp.fc2(F.gelu(b.mlp.fc1(b.norm2(z))))
        return self.head(self.norm(z)[:, 0])


class RMSNorm(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(n))

    def forward(self, x):
        return x * torch.rsqrt((x * x).mean(-1, True) + 1e-5) * self.weight


class Mixer(nn.Module):
    def __init__(self, dim, state, taps):
        super().__init__()
        inner = 2 * dim
        self.state, self.taps = state, taps
        self.A_log, self.D = nn.Parameter(torch.zeros(inner, state)), nn.Parameter(torch.ones(inner))
        self.in_proj = nn.Linear(dim, 2 * inner, bias=False)
        self.conv1d = nn.Conv1d(inner, inner, taps, groups=inner)
        self.x_proj = nn.Linear(inner, 1 + 2 * state, bias=False)
        self.dt_proj, self.out_proj = nn.Linear(1, inner), nn.Linear(inner, dim, bias=False)

    def forward(self, u):
        x, z = self.in_proj(u).chunk(2, -1)
        x = F.silu(self.conv1d(F.pad(x.transpose(1, 2), (self.taps - 1, 0))).transpose(1, 2))
        r, write, read = self.x_proj(x).split([1, self.state, self.state], -1)
        d = F.softplus(self.dt_proj(r))
        h, seen = 0, []
        for t in range(u.shape[1]):
            keep = torch.exp(-d[:, t, :, None] * torch.exp(self.A_log))
            h = keep * h + (d[:, t] * x[:, t])[:, :, None] * write[:, t, None]
            seen.append((h * read[:, t, None]).sum(-1))
        return self.out_proj((torch.stack(seen, 1) + self.D * x) * F.silu(z))


class Mamba(nn.Module):
    def __init__(self):
        super().__init__()
        layers = [holder(norm=RMSNorm(6), mixer=Mixer(6, 3, 3)) for _ in range(2)]
        self.backbone = holder(embedding=nn.Embedding(11, 6), layers=layers, norm_f=RMSNorm(6))

    def forward(self, letters):
        b = self.backbone
        x = b.embedding(letters)
        for layer in b.layers:
            x = x + layer.mixer(layer.norm(x))
        return b.norm_f(x) @ b.embedding.weight.T


class CharLSTM(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.lstm, self.head = nn.Embedding(11, 5), nn.LSTM(5, 6, 2, batch_first=True), nn.Linear(6, 11)

    def forward(self, letters):
        return self.head(self.lstm(self.embed(letters))[0])


class MoE(nn.Module):
    def __init__(self):
        super().__init__()
        self.experts = holder(router=nn.Linear(64, 8, bias=False))
        self.experts.w1 = nn.Parameter(torch.zeros(8, 64, 128))
        self.experts.w2 = nn.Parameter(torch.zeros(8, 128, 64))
        self.norm, self.head = nn.LayerNorm(64), nn.Linear(64, 10)

    def forward(self, x):
        e, b = self.experts, len(x)
        room = b * 2 * 15 // (10 * 8) + 1
        chance = torch.softmax(e.router(x), -1)
        top = chance.topk(2, -1)
        gate = top.values / top.values.sum(-1, keepdim=True)
        used, y = [0] * 8, [torch.zeros(64)] * b
        for choice in range(2):
            for i in range(b):
                k = int(top.indices[i, choice])
                used[k] += 1
                if used[k] <= room:
                    y[i] = y[i] + gate[i, choice] * (F.relu(x[i] @ e.w1[k]) @ e.w2[k])
        busy = 8 * (F.one_hot(top.indices[:, 0], 8).double().mean(0) * chance.mean(0)).sum()
        return self.head(self.norm(x + torch.stack(y))), busy


class VAE(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Conv2d(1, 2, 3, 2, 1), nn.ReLU(), nn.Conv2d(2, 4, 3, 2, 1), nn.ReLU(), nn.Flatten())
        self.mean, self.log_variance = nn.Linear(196, 3), nn.Linear(196, 3)
        self.decoder = nn.Sequential(nn.Linear(3, 196), nn.ReLU(), nn.Unflatten(1, (4, 7, 7)), nn.ConvTranspose2d(4, 2, 4, 2, 1),
                                     nn.ReLU(), nn.ConvTranspose2d(2, 1, 4, 2, 1))

    def forward(self, x):
        return torch.sigmoid(self.decoder(self.mean(self.encoder(x))))


class BasicBlock(nn.Module):
    def __init__(self, a, b, stride):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(a, b, 3, stride, 1, bias=False), nn.BatchNorm2d(b)
        self.conv2, self.bn2 = nn.Conv2d(b, b, 3, 1, 1, bias=False), nn.BatchNorm2d(b)
        if a != b:
            self.downsample = nn.Sequential(nn.Conv2d(a, b, 1, stride, bias=False), nn.BatchNorm2d(b))

    def forward(self, x):
        y = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))
        return F.relu(y + (self.downsample(x) if hasattr(self, "downsample") else x))


class ResNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(3, 4, 7, 2, 3, bias=False), nn.BatchNorm2d(4)
        for i in range(4):
            setattr(self, f"layer{i + 1}", nn.Sequential(BasicBlock(4 * 2 ** max(i - 1, 0), 4 * 2 ** i, 1 if i == 0 else 2)))
        self.fc = nn.Linear(32, 5)

    def forward(self, x):
        y = F.max_pool2d(F.relu(self.bn1(self.conv1(x))), 3, 2, 1)
        return self.fc(self.layer4(self.layer3(self.layer2(self.layer1(y)))).mean([2, 3]))


def conv_norm(a, b, size, stride=1, groups=1):
    return nn.Sequential(nn.Conv2d(a, b, size, stride, size // 2, groups=groups, bias=False), nn.BatchNorm2d(b), nn.ReLU6())


class Inverted(nn.Module):
    def __init__(self, a, b, stride, factor):
        super().__init__()
        n = a * factor
        self.same = stride == 1 and a == b
        self.conv = nn.Sequential(*([conv_norm(a, n, 1)] if factor > 1 else []), conv_norm(n, n, 3, stride, n),
                                  nn.Conv2d(n, b, 1, bias=False), nn.BatchNorm2d(b))

    def forward(self, x):
        return x + self.conv(x) if self.same else self.conv(x)


class MobileNetV2(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(conv_norm(3, 4, 3, 2), Inverted(4, 4, 1, 1), Inverted(4, 6, 2, 3), Inverted(6, 6, 1, 3),
                                      conv_norm(6, 8, 1))
        self.classifier = nn.Sequential(nn.Dropout(0.0), nn.Linear(8, 5))

    def forward(self, x):
        return self.classifier(self.features(x).mean([2, 3]))


class UBlock(nn.Module):
    def __init__(self, a, b, time):
        super().__init__()
        self.norm1, self.conv1, self.shift = nn.GroupNorm(8, a), nn.Conv2d(a, b, 3, padding=1), nn.Linear(time, b)
        self.norm2, self.conv2 = nn.GroupNorm(8, b), nn.Conv2d(b, b, 3, padding=1)
        self.skip = nn.Conv2d(a, b, 1) if a != b else nn.Identity()

    def forward(self, x, e):
        h = self.conv1(F.silu(self.norm1(x))) + self.shift(F.silu(e))[:, :, None, None]
        return self.conv2(F.silu(self.norm2(h))) + self.skip(x)


class UNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Sequential(nn.Linear(8, 32), nn.SiLU(), nn.Linear(32, 32))
        self.first = nn.Conv2d(1, 8, 3, padding=1)
        self.down = nn.ModuleList([UBlock(8, 8, 32), UBlock(8, 16, 32)])
        self.shrink = nn.ModuleList([nn.Conv2d(8, 8, 3, 2, 1)])
        self.middle = UBlock(16, 16, 32)
        self.up = nn.ModuleList([UBlock(32, 8, 32), UBlock(16, 8, 32)])
        self.grow = nn.ModuleList([nn.Conv2d(8, 8, 3, padding=1)])
        self.norm, self.last = nn.GroupNorm(8, 8), nn.Conv2d(8, 1, 3, padding=1)

    def forward(self, x, t):
        angle = t[:, None].double() * torch.exp(torch.arange(4) * (-math.log(10000.0) / 4))
        e = self.embed(torch.cat([torch.sin(angle), torch.cos(angle)], 1))
        a = self.down[0](self.first(x), e)
        b = self.down[1](self.shrink[0](a), e)
        h = self.up[0](torch.cat([self.middle(b, e), b], 1), e)
        h = self.up[1](torch.cat([self.grow[0](F.interpolate(h, scale_factor=2)), a], 1), e)
        return self.last(F.silu(self.norm(h)))


class GAN(nn.Module):
    def __init__(self):
        super().__init__()

        def up(a, b, size=4, stride=2, padding=1):
            return nn.ConvTranspose2d(a, b, size, stride, padding, bias=False)

        def down(a, b, size=4, stride=2, padding=1):
            return nn.Conv2d(a, b, size, stride, padding, bias=False)

        self.g = holder(main=nn.Sequential(up(3, 8, 3, 1, 0), nn.BatchNorm2d(8), nn.ReLU(), up(8, 4), nn.BatchNorm2d(4), nn.ReLU(),
                                           up(4, 2), nn.Tanh()))
        self.d = holder(main=nn.Sequential(down(2, 4), nn.LeakyReLU(0.2), down(4, 8), nn.BatchNorm2d(8), nn.LeakyReLU(0.2),
                                           down(8, 1, 3, 1, 0)))

    def forward(self, x, z):
        images = self.g.main(z[:, :, None, None])
        return self.d.main(x).flatten(), images


class LLTM(nn.Module):
    def __init__(self):
        super().__init__()
        self.weights, self.bias = nn.Parameter(torch.zeros(18, 11)), nn.Parameter(torch.zeros(18))

    def forward(self, x, h, c):
        i, o, g = F.linear(torch.cat([h, x], 1), self.weights, self.bias).chunk(3, 1)
        c = c + F.elu(g) * torch.sigmoid(i)
        return torch.tanh(c) * torch.sigmoid(o), c


class Quantize(torch.autograd.Function):
    """A learned step (LSQ): the derivative that models/ste.tn gives its own function."""
    @staticmethod
    def forward(ctx, x, step):
        v = x / step
        q = torch.round(v.clamp(-8, 7))
        ctx.save_for_backward(v, q)
        return q * step

    @staticmethod
    def backward(ctx, g):
        v, q = ctx.saved_tensors
        inside = (v > -8) & (v < 7)
        return torch.where(inside, g, 0.0), (g * torch.where(inside, q - v, q)).sum() / math.sqrt(v.numel() * 7)


class QuantLinear(nn.Module):
    def __init__(self, a, b):
        super().__init__()
        self.weight, self.step, self.bias = (nn.Parameter(torch.zeros(s)) for s in ((b, a), (), (b,)))

    def forward(self, x):
        return F.linear(x, Quantize.apply(self.weight, self.step), self.bias)


class STE(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(QuantLinear(64, 6), nn.Softsign(), QuantLinear(6, 10))

    def forward(self, x):
        y = 16 * x
        return self.layers((y + (torch.round(y) - y).detach()) / 16)


class Finetune(nn.Module):
    def __init__(self):
        super().__init__()
        body = nn.Sequential(nn.Linear(8, 8), nn.LayerNorm(8), nn.GELU())
        self.backbone, self.head = holder(stem=nn.Linear(64, 8), body=body), nn.Linear(8, 10)
        self.backbone.stem.requires_grad_(False)

    def forward(self, x):
        return self.head(self.backbone.body(torch.tanh(self.backbone.stem(x))))


class Lamb:
    def __init__(self, params, lr=0.01, decay=0.99):
        self.params = [p for p in params if p.requires_grad]
        self.lr, self.t, self.m, self.v = lr, 0, {}, {}

    def step(self):
        self.t += 1
        for p in self.params:
            m = self.m[p] = 0.9 * self.m.get(p, 0) + 0.1 * p.grad
            v = self.v[p] = 0.999 * self.v.get(p, 0) + 0.001 * p.grad ** 2
            u = m / (1 - 0.9 ** self.t) / (torch.sqrt(v / (1 - 0.999 ** self.t)) + 1e-6) + 0.01 * p
            ratio = p.norm() / u.norm() if p.norm() > 0 and u.norm() > 0 else 1.0
            p.copy_(p - self.lr * ratio * u)
