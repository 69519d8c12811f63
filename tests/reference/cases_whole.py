# cases_whole.py: the models of models/ in small configurations, beside the classes of whole_torch.py. A row: the model; its class there;
# inputs: name -> (shape, what: "f" numbers from -1 to 1, "bool", or n: integers below n); what is held; its outputs and its loss, in
# the language and in torch.
# SPDX-License-Identifier: MIT
IMAGE = {"x": ((4, 3, 32, 32), "f"), "label": ((4,), 5)}
LABELLED = ("cross_entropy(net(x), label)", "F.cross_entropy(net(x), label)")
LETTERS = ("cross_entropy(net(letters).flatten(0, 1), next.flatten())", "F.cross_entropy(net(letters).flatten(0, 1), next.flatten())")
TEXT = {"letters": ((4, 7), 11), "next": ((4, 7), 11)}
PIXELS = {"x": ((6, 64), "f"), "label": ((6,), 10)}

CASES = {
    "digits": ("Digits", PIXELS, "m.Digits([12, 8], 10, 0.0)", ("[net(x)]", "[net(x)]"), LABELLED),
    "lenet": ("LeNet", {"x": ((4, 1, 28, 28), "f"), "label": ((4,), 10)}, "m.LeNet5([4, 6])", ("[net(x)]", "[net(x)]"), LABELLED),
    "gcn": ("GCN", {"members": ((5,), 6), "side": ((5,), 2)}, "m.Club([[1, 2], [2], [3, 4], [5], [5], []], 5)",
            ("[net(members)]", "[net(members)]"),
            ("cross_entropy(net(members, training = false), side)", "F.cross_entropy(net(members), side)")),
    "gpt": ("GPT", TEXT, "m.GPT(11, 8, 8, 2, 2)", ("[net(letters)]", "[net(letters)]"), LETTERS),
    "bert": ("BERT", {"words": ((4, 7), 11), "shown": ((4, 7), 11), "types": ((4, 7), 2), "there": ((4, 7), "bool"), "asked": ((4, 7), "bool")},
             "m.BERT(11, 8, 2, 8, 2, 2, 0.0)", ("[net(shown, types, there)]", "[net(shown, types, there)]"),
             ("net.guess(words, shown, asked).nats",
              "F.cross_entropy(net(shown, torch.zeros_like(words), words >= 0)[asked], words[asked])")),
    "vit": ("ViT", {"x": ((4, 2, 6, 6), "f"), "label": ((4,), 3)}, "m.ViT(6, 3, 2, 8, 2, 2, 3, 0.0)", ("[net(x)]", "[net(x)]"), LABELLED),
    "mamba": ("Mamba", TEXT, "m.Mamba(11, 6, 2, 3, 3)", ("[net(letters)]", "[net(letters)]"), LETTERS),
    "charlstm": ("CharLSTM", TEXT, "m.CharLSTM(11, 5, 6, 2)", ("[net(letters.to(u8)).logits]", "[net(letters)]"),
                 ("cross_entropy(net(letters.to(u8)).logits.flatten(0, 1), next.flatten())", LETTERS[1])),
    "moe": ("MoE", PIXELS, "m.Net()", ("[net(x), net.experts(x).busy]", "net(x)"),
            ("cross_entropy(net(x), label) + 0.1 * net.experts(x).busy", "F.cross_entropy(net(x)[0], label) + 0.1 * net(x)[1]")),
    "vae": ("VAE", {"x": ((4, 1, 28, 28), "f"), "e": ((4, 3), "f")}, "m.VAE(3, 2)", ("[net(x)]", "[net(x)]"),
            ("mse_loss(net.decode(net.encode(x).m + exp(net.encode(x).v / 2) * e), x)",
             "F.mse_loss(torch.sigmoid(net.decoder(net.mean(net.encoder(x)) + torch.exp(net.log_variance(net.encoder(x)) / 2) * e)), x)")),
    "resnet18": ("ResNet", IMAGE, "m.ResNet([1, 1, 1, 1], 5, 4)", ("[net(x)]", "[net(x)]"), LABELLED),
    "mobilenetv2": ("MobileNetV2", IMAGE, "m.MobileNetV2(5, 0.0, [(1, 4, 1, 1), (3, 6, 2, 2)], 4, 8)", ("[net(x)]", "[net(x)]"), LABELLED),
    "unet": ("UNet", {"x": ((3, 1, 8, 8), "f"), "e": ((3, 1, 8, 8), "f"), "t": ((3,), 1000)}, "m.UNet(1, 8, [1, 2])",
             ("[net(x, t)]", "[net(x, t)]"), ("mse_loss(net(x, t, training = false), e)", "F.mse_loss(net(x, t), e)")),
    "dcgan": ("GAN", {"x": ((4, 2, 12, 12), "f"), "z": ((4, 3), "f")}, "m.GAN(3, 4, 2, 3, 2)", ("[net.d(x), net.g(z)]", "net(x, z)"),
              ("(softplus(-net.d(x)) + softplus(-net.d(net.g(z)))).mean()",
               "(F.softplus(-net.d.main(x).flatten()) + F.softplus(-net.d.main(net.g.main(z[:, :, None, None])).flatten())).mean()")),
    "lltm": ("LLTM", {"x": ((4, 5), "f"), "h": ((4, 6), "f"), "c": ((4, 6), "f")}, "m.LLTM(5, 6)",
             ("[net(x, h, c).new_h, net(x, h, c).new_c]", "net(x, h, c)"),
             ("(net(x, h, c).new_h * net(x, h, c).new_c).mean()", "torch.mul(*net(x, h, c)).mean()")),
    "ste": ("STE", PIXELS, "m.QuantNet(6)", ("[net(x)]", "[net(x)]"), LABELLED),
    "finetune": ("Finetune", PIXELS, "m.Classifier(8)", ("[net(x)]", "[net(x)]"),
                 ("cross_entropy(net.head(net.backbone(x, training = false)), label)", "F.cross_entropy(net(x), label)")),
}

# Modules of nn with state that no other group has: the first is torch's text.
SEQUENCE = {"x": ((4, 5, 8), "f")}
CASES.update({
    "bilinear": ("nn.Bilinear(5, 6, 3)", {"a": ((4, 5), "f"), "b": ((4, 6), "f")}, "nn.Bilinear(5, 6, 3)", ("[net(a, b)]", "[net(a, b)]"),
                 ("net(a, b).square().mean()", "net(a, b).square().mean()")),
    "embedding": ("nn.Embedding(9, 5, 2)", {"i": ((4, 6), 9)}, "nn.Embedding(9, 5, 2)", ("[net(i)]", "[net(i)]"),
                  ("net(i).square().mean()", "net(i).square().mean()")),
    "bag": ("nn.EmbeddingBag(9, 5)", {"i": ((4, 6), 9)}, "nn.EmbeddingBag(9, 5)", ("[net(i)]", "[net(i)]"),
            ("net(i).square().mean()", "net(i).square().mean()")),
    "heads": ("nn.MultiheadAttention(8, 2, kdim=6, vdim=5, batch_first=True)",
              {"x": ((4, 5, 8), "f"), "k": ((4, 7, 6), "f"), "v": ((4, 7, 5), "f")},
              "nn.MultiheadAttention(8, 2, kdim = 6, vdim = 5, batch_first = true)", ("net(x, k, v)", "net(x, k, v)"),
              ("net(x, k, v)[0].square().mean()", "net(x, k, v)[0].square().mean()")),
    "encoder": ("nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 12, 0.0, 'gelu', batch_first=True, norm_first=True), 2)", SEQUENCE,
                "nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 12, 0.0, \"gelu\", batch_first = true, norm_first = true), 2)",
                ("[net(x)]", "[net(x)]"), ("net(x).square().mean()", "net(x).square().mean()")),
    "transformer": ("nn.Transformer(8, 2, 1, 2, 12, 0.0, batch_first=True)", {**SEQUENCE, "y": ((4, 6, 8), "f")},
                    "nn.Transformer(8, 2, 1, 2, 12, 0.0, batch_first = true)", ("[net(x, y)]", "[net(x, y)]"),
                    ("net(x, y)[:, :3].pow(3).mean()", "net(x, y)[:, :3].pow(3).mean()")),
})

# Optimisers, where not SGD with momentum. Lamb's moments are f32 in f64, too.
OPTIMISERS = {"finetune": ("m.Lamb(lr = 0.01)", "Lamb(net.parameters())")}
