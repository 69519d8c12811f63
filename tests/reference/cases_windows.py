# cases_windows.py: convolutions, pools, resizing: rows as in cases.py.
# SPDX-License-Identifier: MIT
N = 7


def images(*shape):
    return ((N, *shape), "normal")


def conv(x, w, bias=True):
    args = {"x": images(*x), "w": (w, "normal")}
    return {**args, "b": ((w[0],), "normal")} if bias else args


def up(x, w, bias, groups=1):
    return {"x": images(*x), "w": (w, "normal"), "b": ((bias,), "normal")}


X1, X2, X3 = {"x": images(2, 11)}, {"x": images(2, 7, 6)}, {"x": images(2, 4, 5, 4)}
WINDOWS = [
    ("conv1", "conv1d(x, w, b)", "F.conv1d(x, w, b)", conv((3, 9), (4, 3, 3))),
    ("conv1_all", "conv1d(x, w, b, stride = 2, padding = 2, dilation = 3)",
     "F.conv1d(x, w, b, stride=2, padding=2, dilation=3)", conv((3, 12), (4, 3, 3))),
    ("conv1_same", "conv1d(x, w, b, padding = \"same\")", "F.conv1d(x, w, b, padding='same')",
     conv((3, 9), (4, 3, 4))),
    ("conv2", "conv2d(x, w, b)", "F.conv2d(x, w, b)", conv((3, 6, 5), (4, 3, 3, 2))),
    ("conv2_plain", "conv2d(x, w, padding = 1)", "F.conv2d(x, w, padding=1)",
     conv((3, 6, 5), (4, 3, 3, 3), False)),
    ("conv2_stride", "conv2d(x, w, b, [2, 1], [1, 2])", "F.conv2d(x, w, b, (2, 1), (1, 2))",
     conv((3, 7, 6), (4, 3, 3, 3))),
    ("conv2_dilated", "conv2d(x, w, b, dilation = [1, 2], padding = \"same\")",
     "F.conv2d(x, w, b, dilation=(1, 2), padding='same')", conv((3, 7, 8), (4, 3, 3, 3))),
    ("conv2_valid", "conv2d(x, w, b, padding = \"valid\")", "F.conv2d(x, w, b, padding='valid')",
     conv((3, 7, 8), (4, 3, 3, 3))),
    ("conv2_1x1", "conv2d(x, w, b)", "F.conv2d(x, w, b)", conv((3, 4, 5), (6, 3, 1, 1))),
    ("conv2_1x1_stride", "conv2d(x, w, b, stride = 2)", "F.conv2d(x, w, b, stride=2)",
     conv((3, 5, 6), (6, 3, 1, 1))),
    ("conv2_groups", "conv2d(x, w, b, padding = 1, groups = 2)", "F.conv2d(x, w, b, padding=1, groups=2)",
     conv((4, 5, 6), (6, 2, 3, 3))),
    ("conv2_groups_stride", "conv2d(x, w, b, stride = 2, padding = 1, groups = 3)",
     "F.conv2d(x, w, b, stride=2, padding=1, groups=3)", conv((6, 7, 6), (9, 2, 3, 3))),
    ("conv2_groups_1x1", "conv2d(x, w, b, groups = 2)", "F.conv2d(x, w, b, groups=2)",
     conv((4, 5, 6), (6, 2, 1, 1))),
    ("depthwise", "conv2d(x, w, b, padding = 1, groups = 4)", "F.conv2d(x, w, b, padding=1, groups=4)",
     conv((4, 5, 6), (4, 1, 3, 3))),
    ("depthwise_stride", "conv2d(x, w, b, stride = 2, padding = 2, groups = 4, dilation = 2)",
     "F.conv2d(x, w, b, stride=2, padding=2, groups=4, dilation=2)", conv((4, 8, 6), (4, 1, 3, 3))),
    ("depthwise_wide", "conv2d(x, w, b, padding = 1, groups = 4)", "F.conv2d(x, w, b, padding=1, groups=4)",
     conv((4, 5, 6), (8, 1, 3, 3))),
    ("groups_to_one", "conv2d(x, w, b, padding = 1, groups = 2)", "F.conv2d(x, w, b, padding=1, groups=2)",
     conv((6, 5, 4), (2, 3, 3, 3))),
    ("conv3", "conv3d(x, w, b, stride = [1, 2, 1], padding = 1)",
     "F.conv3d(x, w, b, stride=(1, 2, 1), padding=1)", conv((2, 4, 5, 4), (3, 2, 3, 3, 2))),
    ("conv3_groups", "conv3d(x, w, b, padding = 1, groups = 2)", "F.conv3d(x, w, b, padding=1, groups=2)",
     conv((4, 3, 4, 3), (4, 2, 2, 3, 2))),
    ("conv3_depthwise", "conv3d(x, w, b, padding = 1, groups = 3)",
     "F.conv3d(x, w, b, padding=1, groups=3)", conv((3, 3, 4, 3), (6, 1, 2, 3, 2))),
    ("alone", "conv2d(x[0], w, b)", "F.conv2d(x[0], w, b)", conv((3, 6, 5), (4, 3, 3, 2))),
    ("up1", "conv_transpose1d(x, w, b, 2, 1, 1)", "F.conv_transpose1d(x, w, b, 2, 1, 1)",
     up((3, 5), (3, 4, 3), 4)),
    ("up2", "conv_transpose2d(x, w, b)", "F.conv_transpose2d(x, w, b)", up((3, 4, 5), (3, 4, 3, 2), 4)),
    ("up2_stride", "conv_transpose2d(x, w, b, stride = 2, padding = 1)",
     "F.conv_transpose2d(x, w, b, stride=2, padding=1)", up((3, 4, 5), (3, 4, 4, 4), 4)),
    ("up2_all", "conv_transpose2d(x, w, b, [3, 2], [1, 0], [2, 1], dilation = [1, 2])",
     "F.conv_transpose2d(x, w, b, (3, 2), (1, 0), (2, 1), dilation=(1, 2))",
     up((3, 4, 3), (3, 4, 3, 2), 4)),
    ("up2_groups", "conv_transpose2d(x, w, b, 2, groups = 2)", "F.conv_transpose2d(x, w, b, 2, groups=2)",
     up((4, 3, 4), (4, 3, 3, 3), 6)),
    ("up3", "conv_transpose3d(x, w, b, 2, 1)", "F.conv_transpose3d(x, w, b, 2, 1)",
     up((2, 3, 2, 3), (2, 3, 3, 2, 3), 3)),
    ("max1", "max_pool1d(x, 3)", "F.max_pool1d(x, 3)", X1),
    ("max2", "max_pool2d(x, 2)", "F.max_pool2d(x, 2)", X2),
    ("max2_all", "max_pool2d(x, [3, 2], stride = 2, padding = 1, dilation = [1, 2])",
     "F.max_pool2d(x, (3, 2), 2, 1, (1, 2))", X2),
    ("max2_ceil", "max_pool2d(x, 3, 2, 1, ceil_mode = true)", "F.max_pool2d(x, 3, 2, 1, ceil_mode=True)", X2),
    ("max2_ceil_cut", "max_pool2d(x, 2, 3, 1, ceil_mode = true)", "F.max_pool2d(x, 2, 3, 1, ceil_mode=True)", X2),
    ("max2_index", "max_pool2d(x, 3, 2, 1, return_indices = true).values + 0 * max_pool2d(x, 3, 2, 1, "
     "return_indices = true).indices + max_pool2d(x, 3, 2, 1, return_indices = true).indices.to(x.dtype)",
     "F.max_pool2d(x, 3, 2, 1) + F.max_pool2d(x, 3, 2, 1, return_indices=True)[1]", X2),
    ("max3", "max_pool3d(x, 2, stride = 1)", "F.max_pool3d(x, 2, stride=1)", X3),
    ("avg1", "avg_pool1d(x, 3, 2, 1)", "F.avg_pool1d(x, 3, 2, 1)", X1),
    ("avg2", "avg_pool2d(x, 2)", "F.avg_pool2d(x, 2)", X2),
    ("avg2_pad", "avg_pool2d(x, 3, 2, 1)", "F.avg_pool2d(x, 3, 2, 1)", X2),
    ("avg2_nopad", "avg_pool2d(x, 3, 2, 1, count_include_pad = false)",
     "F.avg_pool2d(x, 3, 2, 1, count_include_pad=False)", X2),
    ("avg2_ceil", "avg_pool2d(x, [3, 2], 2, [1, 0], ceil_mode = true)",
     "F.avg_pool2d(x, (3, 2), 2, (1, 0), ceil_mode=True)", X2),
    ("avg2_ceil_nopad", "avg_pool2d(x, 3, 2, 1, true, false)", "F.avg_pool2d(x, 3, 2, 1, True, False)", X2),
    ("avg2_divisor", "avg_pool2d(x, 2, divisor_override = 3)", "F.avg_pool2d(x, 2, divisor_override=3)", X2),
    ("avg3", "avg_pool3d(x, 2, 2, 1)", "F.avg_pool3d(x, 2, 2, 1)", X3),
    ("adaptive_avg1", "adaptive_avg_pool1d(x, 4)", "F.adaptive_avg_pool1d(x, 4)", X1),
    ("adaptive_avg2", "adaptive_avg_pool2d(x, [3, 4])", "F.adaptive_avg_pool2d(x, (3, 4))", X2),
    ("adaptive_avg2_one", "adaptive_avg_pool2d(x, 1)", "F.adaptive_avg_pool2d(x, 1)", X2),
    ("adaptive_avg2_keep", "adaptive_avg_pool2d(x, [none, 3])", "F.adaptive_avg_pool2d(x, (None, 3))", X2),
    ("adaptive_avg3", "adaptive_avg_pool3d(x, 2)", "F.adaptive_avg_pool3d(x, 2)", X3),
    ("adaptive_max1", "adaptive_max_pool1d(x, 4)", "F.adaptive_max_pool1d(x, 4)", X1),
    ("adaptive_max2", "adaptive_max_pool2d(x, [3, 4])", "F.adaptive_max_pool2d(x, (3, 4))", X2),
    ("adaptive_max2_cut", "adaptive_max_pool2d(x, [7, 2])", "F.adaptive_max_pool2d(x, (7, 2))", X2),
    ("adaptive_max2_index", "adaptive_max_pool2d(x, [3, 2], return_indices = true).values + "
     "adaptive_max_pool2d(x, [3, 2], return_indices = true).indices.to(x.dtype)",
     "F.adaptive_max_pool2d(x, (3, 2)) + F.adaptive_max_pool2d(x, (3, 2), return_indices=True)[1]", X2),
    ("adaptive_max3", "adaptive_max_pool3d(x, 2)", "F.adaptive_max_pool3d(x, 2)", X3),
    ("unfold", "unfold(x, [3, 2], padding = 1, stride = [2, 1])", "F.unfold(x, (3, 2), 1, 1, (2, 1))", X2),
    ("fold", "fold(x, [5, 6], [2, 3], padding = 1, stride = 2)", "F.fold(x, (5, 6), (2, 3), 1, 1, 2)",
     {"x": images(12, 9)}),
    ("nearest1", "interpolate(x, size = 17)", "F.interpolate(x, size=17)", X1),
    ("nearest2", "interpolate(x, scale_factor = 2)", "F.interpolate(x, scale_factor=2)", X2),
    ("nearest2_size", "interpolate(x, [5, 9])", "F.interpolate(x, (5, 9))", X2),
    ("nearest2_factor", "interpolate(x, scale_factor = [1.5, 0.5])", "F.interpolate(x, scale_factor=(1.5, 0.5))", X2),
    ("nearest3", "interpolate(x, scale_factor = 2.0)", "F.interpolate(x, scale_factor=2.0)", X3),
    ("nearest_exact", "interpolate(x, [5, 9], mode = \"nearest-exact\")",
     "F.interpolate(x, (5, 9), mode='nearest-exact')", X2),
    ("linear1", "interpolate(x, 17, mode = \"linear\")", "F.interpolate(x, 17, mode='linear')", X1),
    ("linear1_corners", "interpolate(x, 17, mode = \"linear\", align_corners = true)",
     "F.interpolate(x, 17, mode='linear', align_corners=True)", X1),
    ("bilinear", "interpolate(x, scale_factor = 2, mode = \"bilinear\")",
     "F.interpolate(x, scale_factor=2, mode='bilinear')", X2),
    ("bilinear_size", "interpolate(x, [5, 9], mode = \"bilinear\")",
     "F.interpolate(x, (5, 9), mode='bilinear')", X2),
    ("bilinear_corners", "interpolate(x, [5, 9], mode = \"bilinear\", align_corners = true)",
     "F.interpolate(x, (5, 9), mode='bilinear', align_corners=True)", X2),
    ("bilinear_factor", "interpolate(x, scale_factor = [1.7, 0.6], mode = \"bilinear\")",
     "F.interpolate(x, scale_factor=(1.7, 0.6), mode='bilinear')", X2),
    ("bilinear_again", "interpolate(x, scale_factor = 1.7, mode = \"bilinear\", recompute_scale_factor = true)",
     "F.interpolate(x, scale_factor=1.7, mode='bilinear', recompute_scale_factor=True)", X2),
    ("trilinear", "interpolate(x, scale_factor = 2, mode = \"trilinear\")",
     "F.interpolate(x, scale_factor=2, mode='trilinear')", X3),
    ("bicubic", "interpolate(x, [5, 9], mode = \"bicubic\")", "F.interpolate(x, (5, 9), mode='bicubic')", X2),
    ("bicubic_corners", "interpolate(x, scale_factor = 2, mode = \"bicubic\", align_corners = true)",
     "F.interpolate(x, scale_factor=2, mode='bicubic', align_corners=True)", X2),
    ("area", "interpolate(x, [3, 4], mode = \"area\")", "F.interpolate(x, (3, 4), mode='area')", X2),
    ("shuffle", "pixel_shuffle(x, 2)", "F.pixel_shuffle(x, 2)", {"x": images(8, 3, 2)}),
    ("unshuffle", "pixel_unshuffle(x, 2)", "F.pixel_unshuffle(x, 2)", {"x": images(2, 4, 6)}),
    ("channels", "channel_shuffle(x, 3)", "x.view(7, 3, 2, 2, 3).transpose(1, 2).reshape(7, 6, 2, 3)", {"x": images(6, 2, 3)}),
    ("reflect1", "pad(x, [2, 3], mode = \"reflect\")", "F.pad(x, (2, 3), mode='reflect')", X1),
    ("reflect2", "pad(x, [1, 2, 3, 0], mode = \"reflect\")", "F.pad(x, (1, 2, 3, 0), mode='reflect')", X2),
    ("replicate2", "pad(x, [1, 2, 3, 0], mode = \"replicate\")", "F.pad(x, (1, 2, 3, 0), mode='replicate')", X2),
    ("replicate3", "pad(x, [1, 2, 0, 1, 2, 1], mode = \"replicate\")",
     "F.pad(x, (1, 2, 0, 1, 2, 1), mode='replicate')", X3),
    ("circular2", "pad(x, [1, 2, 3, 0], mode = \"circular\")", "F.pad(x, (1, 2, 3, 0), mode='circular')", X2),
    ("cut", "pad(x, [-1, 2])", "F.pad(x, (-1, 2))", X1),
    ("lp1", "lp_pool1d(x, 2.0, 3)", "F.lp_pool1d(x, 2.0, 3)", X1),
    ("lp2", "lp_pool2d(abs(x), 3.0, 2, stride = 2)", "F.lp_pool2d(abs(x), 3.0, 2, stride=2)", X2),
    ("response", "local_response_norm(x, 3, 0.1, 0.7, 2.0)", "F.local_response_norm(x, 3, 0.1, 0.7, 2.0)",
     {"x": images(5, 3, 2)}),
]

# Places: some inside, some outside.
FLAT, VOLUME = {"x": images(2, 4, 5), "g": images(3, 2, 2)}, {"x": images(2, 3, 4, 3), "g": images(2, 2, 2, 3)}
GRIDS = [(f"{mode}_{padding}{'_corners' if corners else ''}", f'grid_sample(x, g, "{mode}", "{padding}", {str(corners).lower()})',
          f"F.grid_sample(x, g, '{mode}', '{padding}', {corners})", FLAT)
         for mode in ("bilinear", "nearest", "bicubic") for padding in ("zeros", "border", "reflection") for corners in (False, True)]
GRIDS += [("volume", "grid_sample(x, g)", "F.grid_sample(x, g, align_corners=False)", VOLUME),
          ("volume_border", "grid_sample(x, g, padding_mode = \"border\", align_corners = true)",
           "F.grid_sample(x, g, padding_mode='border', align_corners=True)", VOLUME),
          ("volume_nearest", "grid_sample(x, g, \"nearest\")", "F.grid_sample(x, g, 'nearest', align_corners=False)", VOLUME),
          ("maps", "affine_grid(t, [7, 1, 3, 4])", "F.affine_grid(t, (7, 1, 3, 4), align_corners=False)", {"t": images(2, 3)}),
          ("maps_corners", "affine_grid(t, [7, 1, 3, 4], true)", "F.affine_grid(t, (7, 1, 3, 4), align_corners=True)", {"t": images(2, 3)}),
          ("maps_volume", "affine_grid(t, [7, 1, 2, 3, 4])", "F.affine_grid(t, (7, 1, 2, 3, 4), align_corners=False)", {"t": images(3, 4)}),
          ("transformer", "grid_sample(x, affine_grid(t, [7, 2, 3, 3]), padding_mode = \"border\")",
           "F.grid_sample(x, F.affine_grid(t, (7, 2, 3, 3), align_corners=False), padding_mode='border', align_corners=False)",
           {"x": images(2, 4, 5), "t": images(2, 3)})]

# Modules with state, trained together for three steps on one batch; name, in Tenon, in torch, and what they
# take of x [N, 4, 6, 6]: "2": x, "1": [N, 4, 36], "3": [N, 2, 2, 6, 6].
MODULES = [
    ("conv1", "nn.Conv1d(4, 3, 5, 2, 2, 1)", "nn.Conv1d(4, 3, 5, 2, 2, 1)", "1"),
    ("conv2", "nn.Conv2d(4, 6, 3, padding = \"same\", groups = 2, bias = false)",
     "nn.Conv2d(4, 6, 3, padding='same', groups=2, bias=False)", "2"),
    ("reflect", "nn.Conv2d(4, 3, [3, 2], padding = [2, 1], dilation = [1, 2], padding_mode = \"reflect\")",
     "nn.Conv2d(4, 3, (3, 2), padding=(2, 1), dilation=(1, 2), padding_mode='reflect')", "2"),
    ("circular", "nn.Conv2d(4, 3, 3, padding = \"same\", padding_mode = \"circular\")",
     "nn.Conv2d(4, 3, 3, padding='same', padding_mode='circular')", "2"),
    ("depthwise", "nn.Conv2d(4, 4, 3, stride = 2, padding = 1, groups = 4)",
     "nn.Conv2d(4, 4, 3, stride=2, padding=1, groups=4)", "2"),
    ("conv3", "nn.Conv3d(2, 3, [2, 3, 3], padding = 1)", "nn.Conv3d(2, 3, (2, 3, 3), padding=1)", "3"),
    ("up1", "nn.ConvTranspose1d(4, 2, 4, 2, 1)", "nn.ConvTranspose1d(4, 2, 4, 2, 1)", "1"),
    ("up2", "nn.ConvTranspose2d(4, 2, 3, 2, 1, 1, groups = 2, bias = false)",
     "nn.ConvTranspose2d(4, 2, 3, 2, 1, 1, groups=2, bias=False)", "2"),
    ("up3", "nn.ConvTranspose3d(2, 3, 2, dilation = 2)", "nn.ConvTranspose3d(2, 3, 2, dilation=2)", "3"),
    ("bn1", "nn.BatchNorm1d(4)", "nn.BatchNorm1d(4)", "1"),
    ("bn2", "nn.BatchNorm2d(4, eps = 1e-3, momentum = 0.3)", "nn.BatchNorm2d(4, eps=1e-3, momentum=0.3)", "2"),
    ("bn2_means", "nn.BatchNorm2d(4, momentum = none)", "nn.BatchNorm2d(4, momentum=None)", "2"),
    ("bn2_batch", "nn.BatchNorm2d(4, track_running_stats = false)", "nn.BatchNorm2d(4, track_running_stats=False)", "2"),
    ("bn3", "nn.BatchNorm3d(2, affine = false)", "nn.BatchNorm3d(2, affine=False)", "3"),
    ("in1", "nn.InstanceNorm1d(4)", "nn.InstanceNorm1d(4)", "1"),
    ("in2", "nn.InstanceNorm2d(4, affine = true, track_running_stats = true)",
     "nn.InstanceNorm2d(4, affine=True, track_running_stats=True)", "2"),
    ("gn", "nn.GroupNorm(2, 4)", "nn.GroupNorm(2, 4)", "2"),
    ("lrn", "nn.LocalResponseNorm(3)", "nn.LocalResponseNorm(3)", "2"),
    ("net", "[nn.Conv2d(4, 6, 3, padding = 1), nn.BatchNorm2d(6), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(54, 5)]",
     "nn.Sequential(nn.Conv2d(4, 6, 3, padding=1), nn.BatchNorm2d(6), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(54, 5))", "2"),
    ("pools", "[nn.ReflectionPad2d([1, 2, 0, 1]), nn.Conv2d(4, 3, 1), nn.AvgPool2d(2), nn.Upsample(scale_factor = 2, mode = \"bilinear\"), "
     "nn.AdaptiveMaxPool2d(3), nn.ZeroPad2d(1), nn.PixelShuffle(1)]",
     "nn.Sequential(nn.ReflectionPad2d((1, 2, 0, 1)), nn.Conv2d(4, 3, 1), nn.AvgPool2d(2), nn.Upsample(scale_factor=2, mode='bilinear'), "
     "nn.AdaptiveMaxPool2d(3), nn.ZeroPad2d(1), nn.PixelShuffle(1))", "2"),
]
TAKES = {"1": "x.flatten(2)", "2": "x", "3": "x.view(x.shape[0], 2, 2, 6, 6)"}
MODULES_TEXT = """
import nn
import optim
fn waves(shape) { return 0.5 * sin(0.7 * (1 + arange(prod(shape)))).view(shape) }
module All {
MEMBERS    fn forward(x: [B, 4, 6, 6]) -> (RESULTS) {
BODY    }
    fn loss(x: [B, 4, 6, 6]) -> (loss: []) {
        let ys = forward(x)
        let sum = zeros([])
        for y in ys { sum = sum + (y * waves(y.shape[1:])).sum() }
        return sum
    }
}
model net = All()
train net.loss with optim.SGD(lr = 0.01)
"""
