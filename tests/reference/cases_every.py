# cases_every.py: every module of nn, with its options, beside torch's module of the same name. A row: torch's text, which
# every.py turns into the language's (True becomes true, and so on; or the two in a pair); its inputs; and what is called where not
# net(a, b, ..), again in both languages or in a pair. Inputs are named a, b, c .. and written as KIND:SHAPE, B being the batch:
#   f  from -1 to 1    w  four times as wide      p  from 0.05 to 0.95    s  1 or -1    q  rows that add up to 1    l  their logarithms;
#   in capitals: no gradient is asked of it    i5  integers below 5    I5  the same as floats, without a gradient    bool
# A fourth element: "eval" where training draws numbers, "coarse" where torch computes with constants of f32 in f64, too.
# SPDX-License-Identifier: MIT
import re

B = 4

X = "f:B,6"
X1, X2, X3 = "f:B,4,9", "f:B,4,6,5", "f:B,2,4,5,4"
SEQUENCE = "f:B,3,6"  # three steps of a batch of B, or the other way round where batch_first is not set
STEPS = "f:3,B,6"

DENSE = [
    ("nn.Identity()", X), ("nn.Linear(6, 5)", X), ("nn.Linear(6, 3, bias=False)", "f:B,2,6"), ("nn.Linear(6, 1)", X),
    ("nn.Bilinear(5, 6, 3)", "f:B,5 f:B,6"), ("nn.Bilinear(5, 6, 3, bias=False)", "f:B,2,5 f:B,2,6"),
    ("nn.Embedding(9, 5)", "i9:B,3"), ("nn.Embedding(9, 5, padding_idx=2)", "i9:B,3"), ("nn.Embedding(9, 5, -1)", "i9:B"),
    ("nn.Embedding(9, 5, scale_grad_by_freq=True)", "i4:B,3"),
    ("nn.EmbeddingBag(9, 5, mode='sum', include_last_offset=True)", "i9:B,3",
     ("net(a.flatten(), tensor([0, 2, 2, 7, 12]))", "net(a.flatten(), torch.tensor([0, 2, 2, 7, 12]))")),
    ("nn.EmbeddingBag(9, 5)", "i9:B,3"), ("nn.EmbeddingBag(9, 5, mode='sum')", "i9:B,3"), ("nn.EmbeddingBag(9, 5, mode='max')", "i9:B,3"),
    ("nn.EmbeddingBag(9, 5, mode='sum')", "i9:B,3 f:B,3", ("net(a, none, b)", "net(a, None, b)")),
    ("nn.EmbeddingBag(9, 5, mode='mean', padding_idx=4)", "i9:B,6"), ("nn.EmbeddingBag(9, 5, mode='max', padding_idx=4)", "i9:B,6"),
    ("nn.EmbeddingBag(9, 5, mode='sum', padding_idx=-5)", "i9:B,6"),
    ("nn.EmbeddingBag(9, 5)", "i9:B,3", ("net(a.flatten(), tensor([0, 2, 2, 7]))", "net(a.flatten(), torch.tensor([0, 2, 2, 7]))")),
    ("nn.EmbeddingBag(9, 5, mode='sum')", "i9:B,3", ("net(a.flatten(), tensor([0, 2, 2, 7]))", "net(a.flatten(), torch.tensor([0, 2, 2, 7]))")),
    ("nn.EmbeddingBag(9, 5, mode='max')", "i9:B,3", ("net(a.flatten(), tensor([0, 2, 2, 7]))", "net(a.flatten(), torch.tensor([0, 2, 2, 7]))")),
    ("nn.MultiheadAttention(8, 2)", "f:B,3,8 f:5,3,8 f:5,3,8", "net(a, b, c)"),
    ("nn.MultiheadAttention(8, 4, bias=False, batch_first=True)", "f:B,3,8", "net(a, a, a, average_attn_weights=False)"),
    ("nn.MultiheadAttention(8, 2, kdim=6, vdim=5, batch_first=True)", "f:B,3,8 f:B,4,6 f:B,4,5", "net(a, b, c)"),
    ("nn.MultiheadAttention(8, 2, batch_first=True)", "f:B,5,8 bool:5,5",
     ("[net(a, a, a, need_weights = false, attn_mask = b & (arange(5)[:, none] != arange(5)))[0]]",
      "[net(a, a, a, need_weights=False, attn_mask=b & ~torch.eye(5, dtype=bool))[0]]")),
    ("nn.MultiheadAttention(8, 2, add_bias_kv=True, add_zero_attn=True)", "f:B,3,8 f:5,3,8", "net(a, b, b)"),
    ("nn.MultiheadAttention(8, 2, add_bias_kv=True, batch_first=True)", "f:B,5,8 f:5,5", "net(a, a, a, attn_mask=b)"),
    ("nn.MultiheadAttention(8, 2, add_zero_attn=True, batch_first=True)", "f:B,5,8 f:B,6,8 bool:B,6", "net(a, b, b, key_padding_mask=c)"),
    ("nn.MultiheadAttention(8, 2, batch_first=True)", "f:B,5,8 f:5,5", "net(a, a, a, attn_mask=b)"),
    ("nn.TransformerEncoderLayer(8, 2, 12, 0.0)", "f:B,3,8"),
    ("nn.TransformerEncoderLayer(8, 2, 12, 0.0, 'gelu', batch_first=True, norm_first=True, bias=False)", "f:B,5,8"),
    ("nn.TransformerEncoderLayer(8, 2, 12, 0.0, layer_norm_eps=0.01, batch_first=True)", "f:B,5,8 bool:5,5",
     ("net(a, src_mask = b & (arange(5)[:, none] != arange(5)))", "net(a, src_mask=b & ~torch.eye(5, dtype=bool))")),
    ("nn.TransformerDecoderLayer(8, 2, 12, 0.0)", "f:B,3,8 f:5,3,8"),
    ("nn.TransformerDecoderLayer(8, 2, 12, 0.0, 'gelu', batch_first=True, norm_first=True)", "f:B,3,8 f:B,5,8"),
    ("nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 12, 0.0, batch_first=True), 2)", "f:B,5,8"),
    ("nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 12, 0.0, batch_first=True), 1, norm=nn.LayerNorm(8))", "f:B,5,8"),
    ("nn.TransformerDecoder(nn.TransformerDecoderLayer(8, 2, 12, 0.0, batch_first=True), 2, nn.LayerNorm(8))", "f:B,3,8 f:B,5,8"),
    ("nn.Transformer(8, 2, 1, 2, 12, 0.0, batch_first=True)", "f:B,3,8 f:B,5,8"),
]

RECURRENT = [
    ("nn.RNN(6, 5)", STEPS), ("nn.RNN(6, 3, 2, 'relu', bias=False)", STEPS), ("nn.RNN(6, 3, batch_first=True, bidirectional=True)", SEQUENCE),
    ("nn.RNN(6, 5)", STEPS + " f:1,B,5"),
    ("nn.GRU(6, 5)", STEPS), ("nn.GRU(6, 3, num_layers=2, bidirectional=True, batch_first=True)", SEQUENCE),
    ("nn.GRU(6, 3, 2, bias=False)", STEPS), ("nn.GRU(6, 4, 2)", STEPS + " f:2,B,4"),
    ("nn.LSTM(6, 5)", STEPS, ("net(a)", "flat(net(a))")),
    ("nn.LSTM(6, 3, 2, bidirectional=True, batch_first=True)", SEQUENCE, ("net(a)", "flat(net(a))")),
    ("nn.LSTM(6, 4, bias=False)", STEPS, ("net(a)", "flat(net(a))")),
    ("nn.LSTM(6, 4, 2)", STEPS + " f:2,B,4 f:2,B,4", ("net(a, b, c)", "flat(net(a, (b, c)))")),
    ("nn.LSTM(6, 5, 2, bidirectional=True, proj_size=3)", STEPS, ("net(a)", "flat(net(a))")),
    ("nn.LSTM(6, 5, proj_size=2, bias=False)", STEPS + " f:1,B,2 f:1,B,5", ("net(a, b, c)", "flat(net(a, (b, c)))")),
    ("nn.GRU(6, 4, bidirectional=True)", "f:B,6"), ("nn.LSTM(6, 4, 2, batch_first=True)", "f:B,6 f:2,4", ("net(a, b, b)", "flat(net(a, (b, b)))")),
    ("nn.GRUCell(6, 4)", "f:6"), ("nn.RNNCell(6, 4)", X), ("nn.RNNCell(6, 4, bias=False, nonlinearity='relu')", X + " f:B,4"),
    ("nn.GRUCell(6, 4)", X), ("nn.GRUCell(6, 4, bias=False)", X + " f:B,4"),
    ("nn.LSTMCell(6, 4)", X, "net(a)"), ("nn.LSTMCell(6, 4, False)", X + " f:B,4 f:B,4", ("net(a, b, c)", "net(a, (b, c))")),
]

CONVOLUTIONS = [
    ("nn.Conv1d(4, 3, 5, 2, 2, 1)", X1), ("nn.Conv1d(4, 4, 3, groups=2, dilation=2, bias=False)", X1),
    ("nn.Conv1d(4, 3, 4, padding='same', padding_mode='circular')", X1), ("nn.Conv1d(4, 3, 3, padding=2, padding_mode='replicate')", X1),
    ("nn.Conv2d(4, 3, 3)", X2), ("nn.Conv2d(4, 6, 3, padding='same', groups=2, bias=False)", X2), ("nn.Conv2d(4, 3, 1)", X2),
    ("nn.Conv2d(4, 3, [3, 2], stride=[2, 1], padding=[1, 0])", X2), ("nn.Conv2d(4, 4, 3, 2, 1, groups=4)", X2),
    ("nn.Conv2d(4, 3, [3, 2], padding=[2, 1], dilation=[1, 2], padding_mode='reflect')", X2),
    ("nn.Conv2d(4, 3, 3, padding='valid')", X2), ("nn.Conv2d(4, 3, 3, padding='same', padding_mode='circular')", X2),
    ("nn.Conv3d(2, 3, [2, 3, 3], padding=1)", X3), ("nn.Conv3d(2, 4, 3, stride=2, padding=1, groups=2, bias=False)", X3),
    ("nn.Conv3d(2, 3, 3, padding='same', padding_mode='replicate')", X3),
    ("nn.ConvTranspose1d(4, 2, 4, 2, 1)", X1), ("nn.ConvTranspose1d(4, 6, 3, 3, 1, 2, groups=2, bias=False, dilation=2)", X1),
    ("nn.ConvTranspose2d(4, 2, 3)", X2), ("nn.ConvTranspose2d(4, 2, 3, 2, 1, 1, groups=2, bias=False)", X2),
    ("nn.ConvTranspose2d(4, 3, [3, 2], stride=[1, 2], dilation=[2, 1])", X2),
    ("nn.ConvTranspose3d(2, 3, 2, dilation=2)", X3), ("nn.ConvTranspose3d(2, 2, 3, 2, 1, 1, groups=2)", X3),
    ("nn.Unfold(3)", X2), ("nn.Unfold([3, 2], padding=1, stride=[2, 1], dilation=[1, 2])", X2),
    ("nn.Fold([5, 6], [2, 3], padding=1, stride=2)", "f:B,12,9"), ("nn.Fold(4, 2)", "f:B,8,9"),
]


def each(name, args, axes=(1, 2, 3)):
    """A module in 1, 2 and 3 axes."""
    return [(f"nn.{name}{n}d({args})", (X1, X2, X3)[n - 1]) for n in axes]


def both(name, args, axes=(1, 2, 3)):
    """Values and indices, which count as numbers."""
    return [(f"nn.{name}{n}d({args}, return_indices=True)", (X1, X2, X3)[n - 1], "[net(a)[0], net(a)[1].to(a.dtype) + 0 * net(a)[0]]") for n in axes]


POOLS = [
    *each("MaxPool", "2"), *each("MaxPool", "3, 2, 1"), *each("MaxPool", "3, stride=1, padding=1, dilation=2"),
    *each("MaxPool", "3, 2, ceil_mode=True"), *both("MaxPool", "2"), ("nn.MaxPool2d([3, 2], stride=[1, 2])", X2),
    *each("AvgPool", "2"), *each("AvgPool", "3, 2, 1"), *each("AvgPool", "3, 2, 1, count_include_pad=False"),
    *each("AvgPool", "3, 2, 1, ceil_mode=True"), *each("AvgPool", "3, 2, 1, True, False"), *each("AvgPool", "2, divisor_override=3", (2, 3)),
    ("nn.AvgPool2d([3, 2], stride=[1, 2], padding=[1, 0])", X2),
    *[(t, x.replace("f:", "p:")) for t, x in each("LPPool", "2.0, 2") + each("LPPool", "3.0, 3, stride=2") + each("LPPool", "1.5, 3, 2, True")],
    *each("AdaptiveAvgPool", "3"), *each("AdaptiveAvgPool", "1"), *each("AdaptiveMaxPool", "3"), *both("AdaptiveMaxPool", "2"),
    ("nn.MaxUnpool1d(2)", "f:B,4,3 f:B,4,6", "net(a, b.argsort(2)[:, :, :3])"),
    ("nn.MaxUnpool1d(3, 2, 1)", "f:B,4,3 f:B,4,5", "net(a, b.argsort(2)[:, :, :3])"),
    ("nn.MaxUnpool2d(2)", "f:B,3,2,3 f:B,3,24", "net(a, b.argsort(2)[:, :, :6].unflatten(2, [2, 3]))"),
    ("nn.MaxUnpool2d([2, 3], stride=[2, 1])", "f:B,3,2,3 f:B,3,24", "net(a, b.argsort(2)[:, :, :6].unflatten(2, [2, 3]), output_size=[5, 5])"),
    ("nn.MaxUnpool3d(2)", "f:B,2,2,1,2 f:B,2,32", "net(a, b.argsort(2)[:, :, :4].unflatten(2, [2, 1, 2]))"),
    ("nn.AdaptiveAvgPool2d([3, None])", X2), ("nn.AdaptiveAvgPool3d([2, 3, None])", X3), ("nn.AdaptiveMaxPool2d([None, 4])", X2),
]

RESIZING = [
    *each("ZeroPad", "2"), *each("ConstantPad", "1, 0.5"), *each("ReflectionPad", "2"), *each("ReplicationPad", "2"), *each("CircularPad", "2"),
    *[(f"nn.{kind}Pad{n}d({[1, 2, 0, 3, 2, 1][:2 * n]}{', -0.5' if kind == 'Constant' else ''})", (X1, X2, X3)[n - 1])
      for kind in ("Zero", "Constant", "Reflection", "Replication", "Circular") for n in (1, 2, 3)],
    ("nn.ZeroPad2d([-1, 2, 1, -2])", X2), ("nn.ConstantPad1d([2, -3], 0.25)", X1),
    ("nn.Upsample(scale_factor=2)", X1), ("nn.Upsample(scale_factor=2)", X2), ("nn.Upsample(scale_factor=2)", X3), ("nn.Upsample(size=[7, 4])", X2),
    ("nn.Upsample(scale_factor=(1.5, 2.0), mode='bilinear')", X2), ("nn.Upsample(size=[9, 7], mode='bilinear', align_corners=True)", X2),
    ("nn.Upsample(scale_factor=1.7, mode='bilinear', recompute_scale_factor=True)", X2),
    ("nn.Upsample(scale_factor=2, mode='bicubic')", X2), ("nn.Upsample(size=13, mode='linear')", X1),
    ("nn.Upsample(scale_factor=2, mode='trilinear', align_corners=True)", X3), ("nn.Upsample(size=[4, 4], mode='nearest-exact')", X2),
    ("nn.UpsamplingNearest2d(scale_factor=2)", X2), ("nn.UpsamplingNearest2d([4, 7])", X2), ("nn.UpsamplingBilinear2d(scale_factor=2)", X2),
    ("nn.UpsamplingBilinear2d([4, 9])", X2), ("nn.PixelShuffle(2)", X2), ("nn.PixelUnshuffle(2)", "f:B,3,4,6"), ("nn.ChannelShuffle(2)", X2),
    ("nn.Flatten()", X2), ("nn.Flatten(0, 2)", X2), ("nn.Flatten(2)", X3), ("nn.Unflatten(1, [2, 2])", X1), ("nn.Unflatten(-1, [3, 3])", X1),
]

NORMS = [
    ("nn.LayerNorm(6)", X), ("nn.LayerNorm([4, 9], eps=0.1)", X1), ("nn.LayerNorm(9, elementwise_affine=False)", X1),
    ("nn.LayerNorm(6, bias=False)", X), ("nn.RMSNorm(6)", X), ("nn.RMSNorm([4, 9], eps=0.01)", X1), ("nn.RMSNorm(6, elementwise_affine=False)", X),
    ("nn.GroupNorm(2, 4)", X2), ("nn.GroupNorm(4, 4, eps=0.1, affine=False)", X1), ("nn.GroupNorm(1, 2)", X3), ("nn.GroupNorm(2, 6)", X),
    ("nn.BatchNorm1d(6)", X), ("nn.BatchNorm1d(4)", X1), *[(f"nn.BatchNorm{n}d({c}{o})", x) for n, c, x in ((2, 4, X2), (3, 2, X3)) for o in ("", ", affine=False")],
    ("nn.BatchNorm2d(4, eps=0.01, momentum=0.3)", X2), ("nn.BatchNorm2d(4, momentum=None)", X2), ("nn.BatchNorm2d(4, track_running_stats=False)", X2),
    ("nn.BatchNorm3d(2, momentum=None, track_running_stats=True)", X3), ("nn.BatchNorm1d(6, affine=False, track_running_stats=False)", X),
    *[(f"nn.InstanceNorm{n}d({c}{o})", x) for n, c, x in ((1, 4, X1), (2, 4, X2), (3, 2, X3))
      for o in ("", ", affine=True", ", track_running_stats=True", ", eps=0.1, momentum=0.4, affine=True, track_running_stats=True")],
    ("nn.LocalResponseNorm(3)", X2), ("nn.LocalResponseNorm(2, alpha=0.1, beta=0.5, k=2.0)", X1), ("nn.LocalResponseNorm(4, 0.3)", "f:B,5,3,2,2"),
    ("nn.Dropout(0.0)", X), ("nn.Dropout(1.0)", X), *each("Dropout", "0.0"), *each("Dropout", "1.0"), ("nn.AlphaDropout(0.0)", X), ("nn.FeatureAlphaDropout(0.0)", X2),
    ("nn.CosineSimilarity()", "f:B,6 f:B,6"), ("nn.CosineSimilarity(dim=-1, eps=0.5)", "f:B,3,2 f:B,3,2"),
    ("nn.PairwiseDistance()", "f:B,6 f:B,6"), ("nn.PairwiseDistance(p=1.0, keepdim=True)", "f:B,6 f:B,6"), ("nn.PairwiseDistance(3.0, 0.1)", "f:B,6 f:B,6"),
]

W = "w:B,6"
ACTIVATIONS = [
    *[(f"nn.{t}", W) for t in """ReLU() ReLU6() ELU() ELU(0.7) CELU() CELU(1.5) SELU() GELU() GELU('tanh') SiLU() Mish() Tanh() Sigmoid()
        LogSigmoid() Softplus() Softplus(2.0,0.5) Softsign() Softshrink() Softshrink(0.2) Hardshrink() Hardshrink(0.2) Tanhshrink() Hardtanh()
        Hardtanh(-0.5,0.7) Hardswish() LeakyReLU() LeakyReLU(0.2) Threshold(0.1,20.0) GLU() GLU(dim=1) PReLU() PReLU(6,init=0.1)
        Softmax(dim=1) Softmax(dim=0) Softmax(-1) LogSoftmax(dim=1) LogSoftmax(0) Softmin(dim=1)""".split()],
    ("nn.Hardsigmoid()", W, None, "coarse"), ("nn.RReLU()", W, None, "eval"), ("nn.RReLU(0.2, 0.4)", W, None, "eval"), ("nn.PReLU(4)", X2), ("nn.Softmax(dim=1)", X2), ("nn.Softmax2d()", X2),
]

L, CLASSES, WIDE = "w:B,5 f:B,5", "w:B,5 i5:B", "w:B,5,3 i5:B,3"
REDUCTIONS = ("'none'", "'sum'")


def reduced(text, given, *more):
    """With each reduction."""
    def plus(t, r):
        return tuple(plus(x, r) for x in t) if isinstance(t, tuple) else t[:-1] + ("" if t.endswith("()") else ", ") + f"reduction={r})"

    return [(text, given, *more)] + [(plus(text, r), given, *more) for r in REDUCTIONS]


def weighted(text):
    """Lists of weights, which are tensors in torch."""
    return text, re.sub(r"weight=(\[[^=]*\])(?=[,)])", r"weight=torch.tensor(\1)", text)


CTC = "net(a.log_softmax(2), b % 3 + 1, c + 4, c + 1)"
ROW_OF_TARGETS = "net(a.log_softmax(2), b % 3 + 1, c + 4, {0}([3, 1, 2, 3]))"
LOSSES = [
    *reduced("nn.CTCLoss()", "w:6,4,4 i3:9 i3:4", (ROW_OF_TARGETS.format("tensor"), ROW_OF_TARGETS.format("torch.tensor"))),
    *reduced("nn.MSELoss()", L), *reduced("nn.L1Loss()", L), *reduced("nn.SmoothL1Loss()", L), *reduced("nn.SmoothL1Loss(beta=0.5)", L),
    ("nn.SmoothL1Loss(beta=0.0)", L), *reduced("nn.HuberLoss()", L), *reduced("nn.HuberLoss(delta=0.6)", L),
    *reduced("nn.BCELoss()", "p:B,5 P:B,5"), *reduced("nn.BCEWithLogitsLoss()", "w:B,5 p:B,5"),
    *reduced("nn.KLDivLoss()", "l:B,5 q:B,5"), ("nn.KLDivLoss(reduction='batchmean')", "l:B,5 q:B,5"), *reduced("nn.KLDivLoss(log_target=True)", "l:B,5 l:B,5"),
    *reduced("nn.NLLLoss()", "l:B,5 i5:B"), *reduced("nn.NLLLoss(ignore_index=2)", "l:B,5 i5:B"), ("nn.NLLLoss()", "w:B,5,3 i5:B,3"),
    *reduced("nn.CrossEntropyLoss()", CLASSES), *reduced("nn.CrossEntropyLoss(ignore_index=2)", WIDE), *reduced("nn.CrossEntropyLoss(label_smoothing=0.2)", CLASSES),
    *reduced("nn.CrossEntropyLoss(label_smoothing=0.1)", "w:B,5 q:B,5"), ("nn.CrossEntropyLoss(ignore_index=1, label_smoothing=0.3)", WIDE),
    *reduced(weighted("nn.NLLLoss(weight=[0.5, 2.0, 1.0, 0.25, 1.5], ignore_index=1)"), "l:B,5 i5:B"),
    *reduced(weighted("nn.CrossEntropyLoss(weight=[0.5, 2.0, 1.0, 0.25, 1.5], label_smoothing=0.1)"), WIDE),
    *reduced(weighted("nn.BCELoss(weight=[0.5, 2.0, 1.0, 0.25, 1.5])"), "p:B,5 P:B,5"),
    *reduced(weighted("nn.BCEWithLogitsLoss(weight=[[0.5], [2.0], [1.0], [0.25]], pos_weight=[0.5, 2.0, 1.0, 0.25, 1.5])"), "w:4,5 p:4,5"),
    *reduced("nn.LinearCrossEntropyLoss(6, 5, bias=True)", "f:B,6 i5:B"), ("nn.LinearCrossEntropyLoss(6, 5, label_smoothing=0.1)", "f:B,6 q:B,5"),
    (weighted("nn.LinearCrossEntropyLoss(6, 3, out_features=(4,), ignore_index=2, weight=[0.5, 2.0, 1.0])"), "f:B,6 i3:B,4"),
    *reduced("nn.MultiMarginLoss()", CLASSES), *reduced(weighted("nn.MultiMarginLoss(2, 0.7, weight=[0.5, 2.0, 1.0, 0.25, 1.5])"), CLASSES),
    *reduced("nn.MultiLabelMarginLoss()", "w:B,5 i6:B,5", "net(a, b - 1)"), *reduced("nn.MultiLabelSoftMarginLoss()", "w:B,5 P:B,5"),
    *reduced(weighted("nn.MultiLabelSoftMarginLoss(weight=[0.5, 2.0, 1.0, 0.25, 1.5])"), "w:B,5 P:B,5"),
    *reduced("nn.TripletMarginWithDistanceLoss()", "f:B,5 f:B,5 f:B,5"),
    (("nn.TripletMarginWithDistanceLoss(fn(x, y) { return 1 - cosine_similarity(x, y) }, margin = 0.5, swap = true)",
      "nn.TripletMarginWithDistanceLoss(distance_function=lambda x, y: 1 - F.cosine_similarity(x, y), margin=0.5, swap=True)"), "f:B,5 f:B,5 f:B,5"),
    *reduced("nn.CTCLoss()", "w:6,B,4 i3:B,3 i3:B", CTC), *reduced("nn.CTCLoss(zero_infinity=True)", "w:6,B,4 i3:B,3 i3:B", CTC),
    *reduced("nn.PoissonNLLLoss()", "f:B,5 P:B,5"), *reduced("nn.PoissonNLLLoss(log_input=False, full=True)", "p:B,5 I7:B,5"), ("nn.PoissonNLLLoss(False, eps=0.1)", "p:B,5 P:B,5"),
    *reduced("nn.GaussianNLLLoss()", "f:B,5 f:B,5 p:B,5"), *reduced("nn.GaussianNLLLoss(full=True, eps=0.3)", "f:B,5 f:B,5 p:B,5"),
    *reduced("nn.SoftMarginLoss()", "w:B,5 S:B,5"), *reduced("nn.HingeEmbeddingLoss()", "w:B,5 S:B,5"), ("nn.HingeEmbeddingLoss(margin=0.4)", "w:B,5 S:B,5"),
    *reduced("nn.MarginRankingLoss()", "f:B f:B S:B"), ("nn.MarginRankingLoss(0.3)", "f:B f:B S:B"),
    *reduced("nn.CosineEmbeddingLoss()", "f:B,5 f:B,5 S:B"), ("nn.CosineEmbeddingLoss(0.2)", "f:B,5 f:B,5 S:B"),
    *reduced("nn.TripletMarginLoss()", "f:B,5 f:B,5 f:B,5"), *reduced("nn.TripletMarginLoss(margin=0.5, p=1.0, swap=True)", "f:B,5 f:B,5 f:B,5"),
]

# One example without a batch, where torch takes it.
ALONE = [
    *[(t, "f:4,9") for t in ("nn.Conv1d(4, 3, 3, padding=1)", "nn.ConvTranspose1d(4, 2, 3)", "nn.MaxPool1d(2)", "nn.AvgPool1d(3, 2, 1)", "nn.LPPool1d(2.0, 3)",
                             "nn.AdaptiveAvgPool1d(4)", "nn.AdaptiveMaxPool1d(2)", "nn.InstanceNorm1d(4)", "nn.ReflectionPad1d(2)", "nn.CircularPad1d(1)",
                             "nn.ConstantPad1d(1, 0.5)", "nn.LayerNorm(9)", "nn.Linear(9, 3)")],
    *[(t, "f:4,6,5") for t in ("nn.Conv2d(4, 3, 3, stride=2)", "nn.Conv2d(4, 3, 3, padding=1, padding_mode='reflect')", "nn.ConvTranspose2d(4, 2, 3)",
                               "nn.MaxPool2d(2)", "nn.AvgPool2d(2)", "nn.LPPool2d(2.0, 2)", "nn.AdaptiveAvgPool2d(3)", "nn.AdaptiveMaxPool2d([2, 3])",
                               "nn.InstanceNorm2d(4, affine=True)", "nn.ReplicationPad2d(2)", "nn.Unfold(2)", "nn.PixelShuffle(2)", "nn.Softmax2d()",
                               "nn.Flatten(0)")],
    *[(t, "f:2,4,5,4") for t in ("nn.Conv3d(2, 3, 2)", "nn.MaxPool3d(2)", "nn.AvgPool3d(2)", "nn.AdaptiveAvgPool3d(2)", "nn.InstanceNorm3d(2)", "nn.ZeroPad3d(1)")],
    ("nn.Fold(4, 2)", "f:8,9"), ("nn.MaxUnpool1d(2)", "f:4,3 f:4,6", "net(a, b.argsort(1)[:, :3])"),
    ("nn.MultiheadAttention(8, 2)", "f:5,8 f:3,8", "net(a, b, b)"), ("nn.TransformerEncoderLayer(8, 2, 12, 0.0)", "f:5,8"),
    ("nn.TransformerDecoderLayer(8, 2, 12, 0.0)", "f:3,8 f:5,8"), ("nn.LSTMCell(6, 4)", "f:6"), ("nn.Embedding(9, 5)", "i9:6"),
    ("nn.CosineEmbeddingLoss()", "f:5 f:5 S:1", "net(a, b, c[0])"), ("nn.CrossEntropyLoss()", "w:5 i5:1", "net(a, b[0])"),
    ("nn.CrossEntropyLoss(label_smoothing=0.1)", "w:5 q:5"), ("nn.NLLLoss()", "l:5 i5:1", "net(a, b[0])"),
    ("nn.MultiMarginLoss()", "w:5 i5:1", "net(a, b[0])"), ("nn.MultiLabelMarginLoss()", "w:5 i6:5", "net(a, b - 1)"),
    ("nn.TripletMarginLoss()", "f:5 f:5 f:5"), ("nn.CosineSimilarity(dim=0)", "f:6 f:6"), ("nn.PairwiseDistance()", "f:6 f:6"),
    ("nn.BatchNorm1d(6)", "f:3,6"), ("nn.PReLU()", "w:5"), ("nn.GLU()", "w:6"), ("nn.CTCLoss(reduction='sum')", "w:6,4 i3:3",
     ("net(a.log_softmax(1), b % 3 + 1, tensor(6), tensor(3))", "net(a.log_softmax(1), b % 3 + 1, torch.tensor(6), torch.tensor(3))")),
]

GROUPS = {"alone": ALONE, "dense": DENSE, "recurrences": RECURRENT, "convolutions": CONVOLUTIONS, "pools": POOLS, "resizing": RESIZING, "norms": NORMS,
          "pointwise": ACTIVATIONS, "criteria": LOSSES}

# What torch.nn has and nn has not, and why.
LEFT_OUT = {
    "Sequential ModuleList ModuleDict ParameterList ParameterDict Container": "lists of the language",
    "RNNBase RNNCellBase": "bases of classes",
    "LazyLinear LazyConv1d LazyConv2d LazyConv3d LazyConvTranspose1d LazyConvTranspose2d LazyConvTranspose3d LazyBatchNorm1d LazyBatchNorm2d "
    "LazyBatchNorm3d LazyInstanceNorm1d LazyInstanceNorm2d LazyInstanceNorm3d": "sizes are known while compiling",
    "DataParallel SyncBatchNorm": "devices are the language's",
    "CrossMapLRN2d NLLLoss2d": "older names of LocalResponseNorm and NLLLoss",
    "FractionalMaxPool2d FractionalMaxPool3d": "regions by random sequences of 2014, in no model since",
    "AdaptiveLogSoftmaxWithLoss": "picks rows by their values, so that sizes depend on them; softmax over all words is fused here",
}
