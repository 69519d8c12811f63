# cases_index.py: choice by index, order, prefixes: rows as in cases.py. Results without a derivative
# are added to 0 * x.
# SPDX-License-Identifier: MIT
N = 7

X = {"x": ((N, 6), "normal")}
XI = {**X, "i": ((N, 3), "class")}
ROWS = {**X, "i": ((5,), "class")}
ADDED = {**X, "i": ((9,), "class"), "u": ((9, 6), "normal")}
COLUMNS = {**X, "i": ((8,), "class"), "u": ((N, 8), "normal")}
ALONG = {**X, "i": ((N, 4), "class"), "u": ((N, 4), "normal")}
DOWN = {**X, "i": ((5, 6), "class"), "u": ((5, 6), "normal")}
WIDE = {"x": ((N, 4, 5), "normal")}
TABLE = {"w": ((5, 4), "normal"), "i": ((N, 3), "class")}
BAG = {"w": ((5, 4), "normal"), "i": ((N, 3), "class"), "s": ((N, 3), "normal")}
TIES = {"x": ((N, 6), "class_float")}
SCAN = {"a": ((N, 6), "normal"), "b": ((N, 6), "normal"), "h": ((6,), "normal")}

INDEX = [
    ("gather", "gather(x, 1, i)", "torch.gather(x, 1, i)", XI),
    ("gather0", "x.gather(0, i)", "x.gather(0, i)", DOWN),
    ("gather_one", "x.gather(1, i[:, :1])", "x.gather(1, i[:, :1])", XI),
    ("gather_wide", "x.gather(1, i[:, none, :].expand(-1, 4, 3)[:, :, none, 0].expand(-1, 4, 5) % 4)",
     "x.gather(1, i[:, None, :].expand(-1, 4, 3)[:, :, None, 0].expand(-1, 4, 5) % 4)",
     {**WIDE, "i": ((N, 3), "class")}),
    ("take_along", "take_along_dim(x, i, 1)", "torch.take_along_dim(x, i, 1)", XI),
    ("take", "take_along_dim(x, i)", "torch.take(x, i)", XI),
    ("select", "index_select(x, 0, i)", "torch.index_select(x, 0, i)", ROWS),
    ("select1", "x.index_select(1, i)", "x.index_select(1, i)", ROWS),
    ("rows", "x[i]", "x[i]", ROWS),
    ("columns", "x[:, i]", "x[:, i]", ROWS),
    ("pairs", "x[i, i - 2]", "x[i, i - 2]", ROWS),
    ("apart", "x[i, 1:3, i - 4]", "x[i, 1:3, i - 4]", {**WIDE, "i": ((3,), "class")}),
    ("matrix_index", "x[:, i]", "x[:, i]", {**X, "i": ((2, 3), "class")}),
    ("embedding", "embedding(i, w)", "F.embedding(i, w)", TABLE),
    ("embedding_pad", "embedding(i, w, 2)", "F.embedding(i, w, padding_idx=2)", TABLE),
    ("bag_mean", "embedding_bag(i, w)", "F.embedding_bag(i, w)", TABLE),
    ("bag_sum", "embedding_bag(i, w, none, \"sum\", s)",
     "F.embedding_bag(i, w, mode='sum', per_sample_weights=s)", BAG),
    ("bag_max", "embedding_bag(i, w, none, \"max\")", "F.embedding_bag(i, w, mode='max')", TABLE),
    ("bag_offsets", "embedding_bag(i.flatten(), w, tensor([0, 4, 4, 9]))",
     "F.embedding_bag(i.flatten(), w, torch.tensor([0, 4, 4, 9]))", TABLE),
    ("bag_pad", "embedding_bag(i, w, none, \"mean\", none, 1)",
     "F.embedding_bag(i, w, padding_idx=1)", TABLE),
    ("one_hot", "one_hot(i, 5).to(x.dtype) + 0 * x[:, none, :5]",
     "F.one_hot(i, 5).to(x) + 0 * x[:, None, :5]", XI),
    ("scatter", "x.scatter(1, argsort(x)[:, :3], x[:, 3:])",
     "x.scatter(1, torch.argsort(x)[:, :3], x[:, 3:])", X),
    ("scatter_value", "x.scatter(1, i, 2.5)", "x.scatter(1, i, 2.5)", XI),
    ("scatter_add", "x.scatter_add(1, i, u)", "x.scatter_add(1, i, u)", ALONG),
    ("scatter_add0", "x.scatter_add(0, i, u)", "x.scatter_add(0, i, u)", DOWN),
    ("scatter_rows", "x.scatter_add(0, i[:, none].expand(9, 6), u)",
     "x.scatter_add(0, i[:, None].expand(9, 6), u)", ADDED),
    ("reduce_max", "x.scatter_reduce(1, i, u, \"amax\")", "x.scatter_reduce(1, i, u, 'amax')", ALONG),
    ("reduce_min", "x.scatter_reduce(1, i, u, \"amin\")", "x.scatter_reduce(1, i, u, 'amin')", ALONG),
    ("reduce_sum", "x.scatter_reduce(1, i, u, \"sum\", include_self = false)",
     "x.scatter_reduce(1, i, u, 'sum', include_self=False)", ALONG),
    ("reduce_mean", "x.scatter_reduce(1, i, u, \"mean\")", "x.scatter_reduce(1, i, u, 'mean')", ALONG),
    ("reduce_mean_alone", "x.scatter_reduce(1, i, u, \"mean\", include_self = false)",
     "x.scatter_reduce(1, i, u, 'mean', include_self=False)", ALONG),
    ("index_add", "x.index_add(0, i, u)", "x.index_add(0, i, u)", ADDED),
    ("index_add1", "x.index_add(1, i, u, alpha = 0.5)", "x.index_add(1, i, u, alpha=0.5)", COLUMNS),
    ("index_fill", "x.index_fill(0, i, 3)", "x.index_fill(0, i, 3)", ROWS),
    ("masked_fill", "x.masked_fill(x > 0.5, -1)", "x.masked_fill(x > 0.5, -1)", X),
    ("sort", "sort(x)[0]", "torch.sort(x)[0]", X),
    ("sort_down", "sort(x, axis = 0, descending = true).values", "torch.sort(x, dim=0, descending=True)[0]", X),
    ("sort_ties", "sort(x, stable = true).indices.to(x.dtype) + 0 * x",
     "torch.sort(x, stable=True)[1].to(x) + 0 * x", TIES),
    ("sort_ties_down", "sort(x, 0, true, true).indices.to(x.dtype) + 0 * x",
     "torch.sort(x, dim=0, descending=True, stable=True)[1].to(x) + 0 * x", TIES),
    ("argsort", "argsort(x, 0).to(x.dtype) + 0 * x", "torch.argsort(x, 0).to(x) + 0 * x", X),
    ("topk", "topk(x, 3)[0]", "torch.topk(x, 3)[0]", X),
    ("topk_low", "topk(x, 2, axis = 0, largest = false).values", "torch.topk(x, 2, dim=0, largest=False)[0]", X),
    ("topk_index", "topk(x, 4).indices.to(x.dtype) + 0 * x[:, :4]",
     "torch.topk(x, 4)[1].to(x) + 0 * x[:, :4]", X),
    ("kthvalue", "kthvalue(x, 3)[0]", "torch.kthvalue(x, 3)[0]", X),
    ("median", "median(x, 1)[0]", "torch.median(x, 1)[0]", X),
    ("median_all", "median(x)", "torch.median(x)", X),
    ("cumsum", "cumsum(x, 0)", "torch.cumsum(x, 0)", X),
    ("cumsum1", "x.cumsum(axis = 1)", "x.cumsum(1)", X),
    ("cumprod", "cumprod(x, 0)", "torch.cumprod(x, 0)", X),
    ("cumprod1", "cumprod(x, -1)", "torch.cumprod(x, -1)", {"x": ((N, 6), "kinks")}),
    ("cummax", "cummax(x, 0)[0]", "torch.cummax(x, 0)[0]", X),
    ("cummin", "cummin(x, 1).values", "torch.cummin(x, 1)[0]", X),
    ("cummax_index", "cummax(x, 1).indices.to(x.dtype) + 0 * x", "torch.cummax(x, 1)[1].to(x) + 0 * x", TIES),
    ("linear_scan", "linear_scan(a, b, h)", "scan(a, b, h)", SCAN),
    ("linear_back", "linear_scan(a, b, h, 0, true)", "scan(a.flip(0), b.flip(0), h).flip(0)", SCAN),
    ("linear_last", "linear_scan(a.T, b.T, h, 1).T", "scan(a, b, h)", SCAN),
    ("searched", "searchsorted(sort(x)[0], u).to(x.dtype) + 0 * x[:, :3]",
     "torch.searchsorted(torch.sort(x)[0].detach(), u.detach()).to(x) + 0 * x[:, :3]",
     {**X, "u": ((N, 3), "constant")}),
    ("bucketize", "bucketize(x, tensor([-1.0, 0.0, 0.5]), right = true).to(x.dtype) + 0 * x",
     "torch.bucketize(x.detach(), torch.tensor([-1.0, 0.0, 0.5]), right=True).to(x) + 0 * x", X),
    ("bincount", "bincount(i, none, 5).to(x.dtype) + 0 * x[0, :5]",
     "torch.bincount(i, minlength=5).to(x) + 0 * x[0, :5]", ROWS),
    ("histc", "histc(x, 4, -1, 1) + 0 * x[0, :4]", "torch.histc(x.detach(), 4, -1, 1) + 0 * x[0, :4]", X),
]
