# cases.py: what is compared with PyTorch, as plain data. make.py computes the expected numbers (with
# torch, by hand), check.py runs the compiler (with nothing but Python's library).
# SPDX-License-Identifier: MIT
import cases_attention
import cases_index
import cases_names
import cases_recurrent
import cases_windows
import cases_written

# The size of axis 0 that stands for the symbolic size N in the texts made from these tables.
N = 7

# name, expression in Tenon, expression in torch, arguments: name -> (shape, how they are drawn).
# How: normal, kinks (normal, beginning with the points where branches meet), unit (0.05 .. 0.95),
# positive, sign (1 or -1), class (0 .. 4), ignored (as class, but for two that are -100), prob and
# logprob (rows that add up to 1).
X = {"x": ((N, 6), "kinks")}
ACTIVATIONS = [
    ("relu", "relu(x)", "F.relu(x)", X),
    ("relu6", "relu6(x)", "F.relu6(x)", X),
    ("elu", "elu(x)", "F.elu(x)", X),
    ("elu2", "elu(x, 0.7)", "F.elu(x, 0.7)", X),
    ("celu", "celu(x, alpha = 1.5)", "F.celu(x, 1.5)", X),
    ("selu", "selu(x)", "F.selu(x)", X),
    ("gelu", "gelu(x)", "F.gelu(x)", X),
    ("gelu_tanh", "gelu(x, approximate = \"tanh\")", "F.gelu(x, approximate='tanh')", X),
    ("silu", "silu(x)", "F.silu(x)", X),
    ("mish", "mish(x)", "F.mish(x)", X),
    ("sigmoid", "sigmoid(x)", "torch.sigmoid(x)", X),
    ("tanh", "tanh(x)", "torch.tanh(x)", X),
    ("softplus", "softplus(x)", "F.softplus(x)", X),
    ("softplus2", "softplus(x, 2.0, 3.0)", "F.softplus(x, 2.0, 3.0)", X),
    ("softplus3", "softplus(60 * x)", "F.softplus(60 * x)", X),
    ("softsign", "softsign(x)", "F.softsign(x)", X),
    ("logsigmoid", "logsigmoid(20 * x)", "F.logsigmoid(20 * x)", X),
    ("softshrink", "softshrink(x)", "F.softshrink(x)", X),
    ("hardshrink", "hardshrink(x)", "F.hardshrink(x)", X),
    ("tanhshrink", "tanhshrink(x)", "F.tanhshrink(x)", X),
    ("hardtanh", "hardtanh(x)", "F.hardtanh(x)", X),
    ("hardtanh2", "hardtanh(x, -0.5, 0.5)", "F.hardtanh(x, -0.5, 0.5)", X),
    ("hardsigmoid", "hardsigmoid(2 * x)", "F.relu6(2 * x + 3) / 6", X),
    ("hardswish", "hardswish(2 * x)", "F.hardswish(2 * x)", X),
    ("leaky_relu", "leaky_relu(x)", "F.leaky_relu(x)", X),
    ("threshold", "threshold(x, 0.125, 20.0)", "F.threshold(x, 0.125, 20.0)", X),
    ("rrelu", "rrelu(x)", "F.rrelu(x)", X),
]

W = {"x": ((N, 6), "normal"), "w": ((6,), "normal"), "b": ((6,), "normal")}
M = {"x": ((N, 6), "normal")}
ROWS = [
    ("softmax", "softmax(x, -1)", "F.softmax(x, -1)", M),
    ("softmax0", "softmax(x, axis = 0)", "F.softmax(x, 0)", M),
    ("softmax_large", "softmax(100 * x, 1)", "F.softmax(100 * x, 1)", M),
    ("log_softmax", "log_softmax(x, dim = 1)", "F.log_softmax(x, dim=1)", M),
    ("softmin", "softmin(x, 1)", "F.softmin(x, 1)", M),
    ("glu", "glu(x)", "F.glu(x)", M),
    ("normalize", "normalize(x)", "F.normalize(x)", M),
    ("normalize1", "normalize(x, p = 1.0, axis = 0)", "F.normalize(x, p=1.0, dim=0)", M),
    ("layer_norm", "layer_norm(x, [6], w, b)", "F.layer_norm(x, [6], w, b)", W),
    ("layer_norm0", "layer_norm(x, 6, eps = 0.1)", "F.layer_norm(x, [6], eps=0.1)", M),
    ("rms_norm", "rms_norm(x, 6, w, 1e-6)", "x * torch.rsqrt((x * x).mean(-1, True) + 1e-6) * w",
     {"x": ((N, 6), "normal"), "w": ((6,), "normal")}),
    ("group_norm", "group_norm(x, 2, w, b)", "F.group_norm(x, 2, w, b)",
     {"x": ((N, 4, 3), "normal"), "w": ((4,), "normal"), "b": ((4,), "normal")}),
    ("prelu", "prelu(x, w)", "F.prelu(x, w)",
     {"x": ((N, 4, 3), "normal"), "w": ((4,), "normal")}),
    ("linear", "linear(x, w, b)", "F.linear(x, w, b)",
     {"x": ((N, 6), "normal"), "w": ((5, 6), "normal"), "b": ((5,), "normal")}),
    ("cosine_similarity", "cosine_similarity(x, y)", "F.cosine_similarity(x, y)",
     {"x": ((N, 6), "normal"), "y": ((N, 6), "normal")}),
    ("pairwise_distance", "pairwise_distance(x, y)", "F.pairwise_distance(x, y)",
     {"x": ((N, 6), "normal"), "y": ((N, 6), "normal")}),
]

L = {"x": ((N, 5), "normal"), "t": ((N, 5), "normal")}
BITS = {"x": ((N, 5), "unit"), "t": ((N, 5), "unit")}
LOGITS = {"x": ((N, 5), "kinks"), "t": ((N, 5), "unit")}
CLASS = {"x": ((N, 5), "normal"), "t": ((N,), "class")}
IGNORED = {"x": ((N, 5), "normal"), "t": ((N,), "ignored")}
WEIGHED = {**IGNORED, "w": ((5,), "positive")}
LOSSES = [
    ("mse", "mse_loss(x, t)", "F.mse_loss(x, t)", L),
    ("mse_none", "mse_loss(x, t, reduction = \"none\")", "F.mse_loss(x, t, reduction='none')", L),
    ("mse_sum", "mse_loss(x, t, reduction = \"sum\")", "F.mse_loss(x, t, reduction='sum')", L),
    ("l1", "l1_loss(x, t)", "F.l1_loss(x, t)", L),
    ("smooth_l1", "smooth_l1_loss(x, t)", "F.smooth_l1_loss(x, t)", L),
    ("smooth_l1_half", "smooth_l1_loss(x, t, beta = 0.5)", "F.smooth_l1_loss(x, t, beta=0.5)", L),
    ("huber", "huber_loss(x, t, delta = 0.8)", "F.huber_loss(x, t, delta=0.8)", L),
    ("bce", "binary_cross_entropy(x, t)", "F.binary_cross_entropy(x, t.detach())",
     {**BITS, "t": ((N, 5), "unit_constant")}),
    ("bce_logits", "binary_cross_entropy_with_logits(x, t)",
     "F.binary_cross_entropy_with_logits(x, t)", LOGITS),
    ("bce_logits_weights", "binary_cross_entropy_with_logits(x, t, w, \"sum\", pos_weight = p)",
     "F.binary_cross_entropy_with_logits(x, t, w.detach(), reduction='sum', pos_weight=p.detach())",
     {**LOGITS, "w": ((5,), "constant"), "p": ((5,), "constant")}),
    ("kl", "kl_div(x, t, reduction = \"batchmean\")", "F.kl_div(x, t, reduction='batchmean')",
     {"x": ((N, 5), "logprob"), "t": ((N, 5), "prob")}),
    ("kl_log", "kl_div(x, t, log_target = true)", "F.kl_div(x, t, log_target=True)",
     {"x": ((N, 5), "logprob"), "t": ((N, 5), "logprob")}),
    ("nll", "nll_loss(x, t)", "F.nll_loss(x, t)", IGNORED),
    ("nll_weights", "nll_loss(x, t, w)", "F.nll_loss(x, t, w.detach())",
     {**IGNORED, "w": ((5,), "constant")}),
    ("nll_sum", "nll_loss(x, t, reduction = \"sum\")", "F.nll_loss(x, t, reduction='sum')", CLASS),
    ("nll_wide", "nll_loss(x, t)", "F.nll_loss(x, t)",
     {"x": ((N, 5, 3), "normal"), "t": ((N, 3), "class")}),
    ("ce", "cross_entropy(x, t)", "F.cross_entropy(x, t)", CLASS),
    ("ce_ignored", "cross_entropy(x, t)", "F.cross_entropy(x, t)", IGNORED),
    ("ce_none", "cross_entropy(x, t, reduction = \"none\")",
     "F.cross_entropy(x, t, reduction='none')", IGNORED),
    ("ce_index", "cross_entropy(x, t, ignore_index = 2)",
     "F.cross_entropy(x, t, ignore_index=2)", CLASS),
    ("ce_smooth", "cross_entropy(x, t, label_smoothing = 0.1)",
     "F.cross_entropy(x, t, label_smoothing=0.1)", IGNORED),
    ("ce_weights", "cross_entropy(x, t, w, label_smoothing = 0.2)",
     "F.cross_entropy(x, t, w.detach(), label_smoothing=0.2)", {**IGNORED, "w": ((5,), "constant")}),
    ("ce_wide", "cross_entropy(x, t)", "F.cross_entropy(x, t)",
     {"x": ((N, 5, 3), "normal"), "t": ((N, 3), "class")}),
    ("ce_prob", "cross_entropy(x, t, label_smoothing = 0.1)",
     "F.cross_entropy(x, t, label_smoothing=0.1)",
     {"x": ((N, 5), "normal"), "t": ((N, 5), "prob")}),
    ("ce_large", "cross_entropy(1000 * x, t)", "F.cross_entropy(1000 * x, t)", CLASS),
    ("poisson", "poisson_nll_loss(x, t)", "F.poisson_nll_loss(x, t)", LOGITS),
    ("gaussian", "gaussian_nll_loss(x, t, v)", "F.gaussian_nll_loss(x, t, v)",
     {**L, "v": ((N, 5), "unit")}),
    ("hinge", "hinge_embedding_loss(x, t)", "F.hinge_embedding_loss(x, t)",
     {"x": ((N, 5), "normal"), "t": ((N, 5), "sign")}),
    ("ranking", "margin_ranking_loss(x, y, t, 0.3)", "F.margin_ranking_loss(x, y, t, 0.3)",
     {"x": ((N,), "normal"), "y": ((N,), "normal"), "t": ((N,), "sign")}),
    ("soft_margin", "soft_margin_loss(x, t)", "F.soft_margin_loss(x, t)",
     {"x": ((N, 5), "normal"), "t": ((N, 5), "sign")}),
    ("multilabel", "multilabel_soft_margin_loss(x, t)", "F.multilabel_soft_margin_loss(x, t)", LOGITS),
    ("cosine", "cosine_embedding_loss(x, y, t, 0.1)", "F.cosine_embedding_loss(x, y, t, 0.1)",
     {"x": ((N, 5), "normal"), "y": ((N, 5), "normal"), "t": ((N,), "sign")}),
    ("triplet", "triplet_margin_loss(x, y, z)", "F.triplet_margin_loss(x, y, z)",
     {"x": ((N, 5), "normal"), "y": ((N, 5), "normal"), "z": ((N, 5), "normal")}),
]
GROUPS = {"activations": ACTIVATIONS, "rows": ROWS, "losses": LOSSES}

# Groups whose draws begin with a seed of their own: `make.py GROUP` makes one alone.
MORE_GROUPS = {"attention": cases_attention.ATTENTION, "written": cases_written.WRITTEN, "index": cases_index.INDEX, "windows": cases_windows.WINDOWS,
               "names": cases_names.NAMES, "grids": cases_windows.GRIDS}

# Modules with state: name, in Tenon, in torch (None: rms_norm, which this torch lacks).
MODULES = [
    ("linear", "nn.Linear(6, 5)", "nn.Linear(6, 5)"),
    ("plain", "nn.Linear(6, 3, bias = false)", "nn.Linear(6, 3, bias=False)"),
    ("norm", "nn.LayerNorm(6)", "nn.LayerNorm(6)"),
    ("bare", "nn.LayerNorm(6, elementwise_affine = false)", "nn.LayerNorm(6, elementwise_affine=False)"),
    ("rms", "nn.RMSNorm(6, eps = 1e-5)", None),
    ("prelu", "nn.PReLU()", "nn.PReLU()"),
    ("stack", "[nn.Linear(6, 8), relu, nn.Linear(8, 2)]", "nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 2))"),
]

# Optimisers: three steps of a small perceptron. None: computed by make.py itself.
OPTIMISERS = {
    "sgd": ("optim.SGD(lr = 0.1)", "torch.optim.SGD(p, 0.1)"),
    "momentum": ("optim.SGD(lr = 0.1, momentum = 0.9, weight_decay = 0.01)",
                 "torch.optim.SGD(p, 0.1, 0.9, weight_decay=0.01)"),
    "dampening": ("optim.SGD(lr = 0.1, momentum = 0.9, dampening = 0.3)",
                  "torch.optim.SGD(p, 0.1, 0.9, 0.3)"),
    "nesterov": ("optim.SGD(lr = 0.1, momentum = 0.9, nesterov = true)",
                 "torch.optim.SGD(p, 0.1, 0.9, nesterov=True)"),
    "adam": ("optim.Adam(lr = 0.02, weight_decay = 0.1)", "torch.optim.Adam(p, 0.02, weight_decay=0.1)"),
    "amsgrad": ("optim.Adam(lr = 0.02, betas = (0.5, 0.6), amsgrad = true)",
                "torch.optim.Adam(p, 0.02, (0.5, 0.6), amsgrad=True)"),
    "adamw": ("optim.AdamW(lr = 0.02, weight_decay = 0.1)", "torch.optim.AdamW(p, 0.02, weight_decay=0.1)"),
    "adamax": ("optim.Adamax(lr = 0.02, weight_decay = 0.1)", "torch.optim.Adamax(p, 0.02, weight_decay=0.1)"),
    "rmsprop": ("optim.RMSprop(lr = 0.02, momentum = 0.5, centered = true)",
                "torch.optim.RMSprop(p, 0.02, momentum=0.5, centered=True)"),
    "adagrad": ("optim.Adagrad(lr = 0.1, lr_decay = 0.2)", "torch.optim.Adagrad(p, 0.1, 0.2)"),
    "adadelta": ("optim.Adadelta(lr = 0.5, weight_decay = 0.1)", "torch.optim.Adadelta(p, 0.5, weight_decay=0.1)"),
    "adafactor": ("optim.Adafactor(lr = 0.05, weight_decay = 0.1)", "torch.optim.Adafactor(p, 0.05, weight_decay=0.1)"),
    "muon": ("optim.Muon(lr = 0.02, weight_decay = 0.1)", None),
    "lion": ("optim.Lion(lr = 0.02, weight_decay = 0.1)", None),
}

# A perceptron that begins at values which both sides can compute: train.tn with the optimiser put in.
TRAIN_TEXT = """
import nn
import optim
fn waves(shape) { return 0.5 * sin(0.7 * (1 + arange(prod(shape)))).view(shape) }
module Net {
    first = nn.Linear(5, 8)
    second = nn.Linear(8, 3)
    first.weight = waves
    first.bias = waves
    second.weight = waves
    second.bias = waves
    fn loss(x: [B, 5], y: i64[B]) -> (loss: []) { return cross_entropy(second(relu(first(x))), y) }
}
model net = Net()
train net.loss with OPTIMISER { clip_norm = CLIP }
"""
