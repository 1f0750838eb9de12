"""Batch, layer, instance, group and RMS normalisation, local response normalisation, resizing.

An epsilon arrives as the f32 that the model file stores, widened: PyTorch computes with a double.
"""
import torch
import torch.nn.functional as F

from protocol import Refused
from registry import ints, number, op


def eps_of(p, otherwise=1e-5):
    return number(p.get("eps", otherwise))


@op("batch_norm")
def batch_norm(p, node, constants):
    if not p.get("spatial", True):
        raise Refused("PyTorch's batch_norm has one mean and variance for each channel")

    def forward(x, scale, bias, mean, var):
        axis = p.get("axis", 1) % x.dim()
        y = x if axis == 1 else x.movedim(axis, 1)
        y = F.batch_norm(y, mean, var, scale, bias, False, 0.0, eps_of(p))
        return y if axis == 1 else y.movedim(1, axis)
    return forward


@op("layer_norm")
def layer_norm(p, node, constants):
    statistics = any(node["outputs"][1:])

    def forward(x, scale=None, bias=None):
        shape = list(x.shape[p.get("axis", -1) % x.dim():])
        scale, bias = (None if t is None else t.expand(shape).contiguous() for t in (scale, bias))
        if statistics:
            return torch.native_layer_norm(x, shape, scale, bias, eps_of(p))
        return F.layer_norm(x, shape, scale, bias, eps_of(p))
    return forward


@op("instance_norm")
def instance_norm(p, node, constants):
    return lambda x, scale=None, bias=None: F.instance_norm(x, None, None, scale, bias, True, 0.0,
                                                            eps_of(p))


@op("group_norm")
def group_norm(p, node, constants):
    groups = p.get("groups", 1)

    def forward(x, scale=None, bias=None):
        if p.get("scale_per_group"):
            each = x.shape[1] // groups
            scale, bias = (None if t is None else t.repeat_interleave(each) for t in (scale, bias))
        return F.group_norm(x, groups, scale, bias, eps_of(p))
    return forward


@op("rms_norm")
def rms_norm(p, node, constants):
    if not hasattr(F, "rms_norm"):
        raise Refused("PyTorch %s has no rms_norm; 2.4 and later have it" % torch.__version__)

    def forward(x, scale=None):
        shape = list(x.shape[p.get("axis", -1) % x.dim():])
        return F.rms_norm(x, shape, None if scale is None else scale.expand(shape), eps_of(p))
    return forward


@op("mean_variance_normalization")
def mean_variance_normalization(p, node, constants):
    raise Refused("PyTorch adds epsilon to the variance, this operation to the deviation")


@op("lp_norm")
def lp_norm(p, node, constants):
    if p.get("eps_in", "norm_max") != "norm_max":
        raise Refused("F.normalize holds the norm itself above epsilon")
    axes = p.get("axes") or [-1]
    return lambda x: F.normalize(x, p=number(p.get("p", 2)),
                                 dim=axes[0] if len(axes) == 1 else tuple(axes), eps=eps_of(p, 0))


@op("lrn")
def lrn(p, node, constants):
    size = p.get("size", 5)
    if size % 2 == 0 and not p.get("longer_below"):
        raise Refused("PyTorch's even window of channels is longer below, this one above")
    alpha = number(p.get("alpha", 1e-4)) * (1 if p.get("alpha_divided", True) else size)
    return lambda x: F.local_response_norm(x, size, alpha, number(p.get("beta", 0.75)),
                                           number(p.get("bias", 1)))


@op("resize")
def resize(p, node, constants):
    """F.interpolate. Coordinates: its modes are half_pixel (align_corners=False, nearest-exact),
    align_corners and, for nearest, asymmetric with floor."""
    mode, place = p.get("mode", "nearest"), p.get("coordinate_transformation_mode", "half_pixel")
    if p.get("antialias") or p.get("exclude_outside"):
        raise Refused("F.interpolate treats the border otherwise when it antialiases or excludes")
    if p.get("keep_aspect_ratio_policy", "stretch") != "stretch":
        raise Refused("F.interpolate does not keep the aspect ratio")
    corners = None
    if mode == "nearest":
        how = {("asymmetric", "floor"): "nearest",
               ("half_pixel", "round_prefer_ceil"): "nearest-exact"}.get(
                   (place, p.get("nearest_mode", "round_prefer_floor")))
        if how is None:
            raise Refused("F.interpolate has no nearest with %s, %s" % (place,
                                                                       p.get("nearest_mode")))
    else:
        if place not in ("half_pixel", "pytorch_half_pixel", "align_corners"):
            raise Refused("F.interpolate has no coordinates %s" % place)
        corners = place == "align_corners"
        if mode == "cubic" and abs(number(p.get("cubic_coeff_a", -0.75)) + 0.75) > 1e-9:
            raise Refused("F.interpolate's cubic kernel has a = -0.75")

    def forward(x, roi=None, scales=None, sizes=None):
        factors = [number(v) for v in (scales.reshape(-1).tolist() if scales is not None and
                                       scales.numel() else p.get("scales") or [])]
        wanted = ints(sizes, p.get("sizes") or [])
        axes = [a % x.dim() for a in p.get("axes") or range(x.dim())]
        name = how if mode == "nearest" else {
            ("linear", 3): "linear", ("linear", 4): "bilinear", ("linear", 5): "trilinear",
            ("cubic", 4): "bicubic"}.get((mode, x.dim()))
        if name is None or x.dim() < 3:
            raise Refused("F.interpolate has no %s for %d axes" % (mode, x.dim()))
        given = dict(zip(axes, factors or wanted))
        for a in (0, 1):
            if given.get(a, 1 if factors else x.shape[a]) != (1 if factors else x.shape[a]):
                raise Refused("F.interpolate leaves the first two axes alone")
        spatial = range(2, x.dim())
        if factors:
            where = {"scale_factor": tuple(given.get(a, 1.0) for a in spatial),
                     "recompute_scale_factor": False}
        else:
            where = {"size": tuple(given.get(a, x.shape[a]) for a in spatial)}
        y = F.interpolate(x, mode=name, align_corners=corners, **where)
        if place == "pytorch_half_pixel" and any(n == 1 for n in y.shape[2:]):
            raise Refused("for a single output PyTorch takes the middle, pytorch_half_pixel the "
                          "first element")
        return y
    return forward
