# cases_names.py: torch's further functions: rows as in cases.py. Results without a derivative are
# added to 0 * x. SPDX-License-Identifier: MIT
N = 7

X = {"x": ((N, 6), "normal")}
K = {"x": ((N, 6), "kinks")}
XY = {**X, "y": ((N, 6), "normal")}
XYW = {**XY, "w": ((N, 6), "unit")}
KP = {**K, "y": ((N, 6), "positive")}
XYP = {**XY, "w": ((N, 6), "positive")}
CLASSES = {"x": ((N, 6), "class_float"), "y": ((N, 6), "class_float")}
PRODUCT = {"x": ((N, 5), "normal"), "y": ((N, 4), "normal"), "w": ((4, 5), "normal")}
BATCH = {"x": ((N, 3, 5), "normal"), "y": ((N, 3, 4), "normal"), "w": ((N, 4, 5), "normal")}
SETS = {"x": ((N, 4), "normal"), "y": ((5, 4), "normal")}
VECTORS = {"x": ((N,), "normal"), "y": ((N,), "normal")}
SPACE = {"x": ((N, 3, 4), "normal"), "y": ((N, 3, 4), "normal")}

NAMES = [
    # not on the bound: there torch's slope has been 1 (as here) and 0, by version
    ("clamp_min", "x.clamp_min(0.5)", "x.clamp_min(0.5)", X),
    ("clamp_max", "x.clamp_max(0.5)", "x.clamp_max(0.5)", X),
    ("clamp_tensors", "x.clamp_min(y).clamp_max(w)", "x.clamp_min(y).clamp_max(w)", XYW),
    ("lerp", "lerp(x, y, 0.3)", "torch.lerp(x, y, 0.3)", XY),
    ("lerp_far", "lerp(x, y, 0.9)", "torch.lerp(x, y, 0.9)", XY),
    ("lerp_tensor", "lerp(x, y, w)", "torch.lerp(x, y, w)", XYW),
    ("addcmul", "addcmul(x, y, w, value = 0.5)", "torch.addcmul(x, y, w, value=0.5)", XYW),
    ("addcdiv", "addcdiv(x, y, w, value = 0.5)", "torch.addcdiv(x, y, w, value=0.5)", XYP),
    ("addmm", "addmm(x, y, w)", "torch.addmm(x, y, w)", PRODUCT),
    ("addmm_scaled", "addmm(x, y, w, beta = 0.5, alpha = 2.0)",
     "torch.addmm(x, y, w, beta=0.5, alpha=2.0)", PRODUCT),
    ("addmm_alone", "addmm(nan * x.detach(), y, w, beta = 0) + 0 * x",
     "torch.addmm(torch.nan * x.detach(), y, w, beta=0) + 0 * x", PRODUCT),
    ("baddbmm", "baddbmm(x, y, w, alpha = 2.0)", "torch.baddbmm(x, y, w, alpha=2.0)", BATCH),
    ("cdist", "cdist(x, y)", "torch.cdist(x, y)", SETS),
    ("cdist1", "cdist(x, y, 1.0)", "torch.cdist(x, y, 1.0)", SETS),
    ("count", "count_nonzero(x, axis = 1).to(x.dtype) + 0 * x.sum(1)",
     "torch.count_nonzero(x, dim=1).to(x) + 0 * x.sum(1)", CLASSES),
    ("nan_to_num", "nan_to_num(where(x > 0.5, inf, where(x < -0.5, nan, x)), 1.0, 2.0)",
     "torch.nan_to_num(torch.where(x > 0.5, torch.inf, torch.where(x < -0.5, torch.nan, x)), 1.0, 2.0)", K),
    ("logaddexp", "logaddexp(50 * x, 50 * y)", "torch.logaddexp(50 * x, 50 * y)", XY),
    ("logaddexp_tie", "logaddexp(x, y)", "torch.logaddexp(x, y)", CLASSES),
    ("trace", "trace(x)", "torch.trace(x)", X),
    ("hypot", "hypot(x, y)", "torch.hypot(x, y)", XY),
    ("hypot_kinks", "hypot(x, y)", "torch.hypot(x, y)", KP),
    ("mv", "mv(x.T, y)", "torch.mv(x.T, y)", {**X, "y": ((N,), "normal")}),
    ("vdot", "vdot(x, y)", "torch.vdot(x, y)", VECTORS),
    ("view_as", "(x.view_as(y.T) * y.T).T", "(x.view_as(y.T.contiguous()) * y.T).T", XY),
    ("reshape_as", "(x.reshape_as(y.T) * y.T).T", "(x.reshape_as(y.T) * y.T).T", XY),
    ("isclose", "isclose(x, y, 0.5, 0.1).to(x.dtype) + 0 * x", "torch.isclose(x, y, 0.5, 0.1).to(x) + 0 * x", XY),
    ("hstack", "hstack([x, y, x])", "torch.hstack([x, y, x])", XY),
    ("hstack1", "hstack([x, y]).view(2, -1).T", "torch.hstack([x, y]).view(2, -1).T", VECTORS),
    ("vstack", "vstack([x, y]).T", "torch.vstack([x, y]).T", VECTORS),
    ("meshgrid", "meshgrid([x, y])[1] * meshgrid([x, y])[0]",
     "torch.meshgrid([x, y], indexing='ij')[1] * torch.meshgrid([x, y], indexing='ij')[0]",
     {"x": ((N,), "normal"), "y": ((4,), "normal")}),
    ("meshgrid_xy", "(meshgrid([x, y], \"xy\")[0] - meshgrid([x, y], indexing = \"xy\")[1]).T",
     "(torch.meshgrid([x, y], indexing='xy')[0] - torch.meshgrid([x, y], indexing='xy')[1]).T",
     {"x": ((N,), "normal"), "y": ((4,), "normal")}),
    ("fmod", "fmod(3 * x, y)", "torch.fmod(3 * x, y)", XY),
    ("fmod_kinks", "fmod(x, 0.3 * y)", "torch.fmod(x, 0.3 * y)", KP),
    ("cross", "cross(x, y, dim = 1)", "torch.cross(x, y, dim=1)", SPACE),
    ("cross_axis", "cross(x.transpose(1, 2), y.transpose(1, 2), -1)",
     "torch.cross(x.transpose(1, 2), y.transpose(1, 2), -1)", SPACE),
    ("logcumsumexp", "logcumsumexp(100 * x, 1)", "torch.logcumsumexp(100 * x, 1)", X),
    ("logcumsumexp0", "x.logcumsumexp(0)", "x.logcumsumexp(0)", X),
    ("type_as", "(x > 0).type_as(x) * x", "(x > 0).type_as(x) * x", X),
    ("einsum_list", "einsum(\"ij,kj->ik\", [x, y])", "torch.einsum('ij,kj->ik', [x, y])", SETS),
]
