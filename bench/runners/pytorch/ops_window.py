"""Convolutions and pooling: windows that slide over 1 to 3 axes.

PyTorch pads both sides alike, and avg_pool only by half a window: what exceeds that is put around
the input first, with the value that the op's definition gives to padding. Where that would change
the meaning (a count that leaves padding out), the node is refused.
"""
import torch
import torch.nn.functional as F

from protocol import Refused
from registry import ints, op


def window(p, spatial):
    """strides, dilations, begin and end padding, with the defaults of WindowParams."""
    ones, zeros = [1] * spatial, [0] * spatial
    return (p.get("strides") or ones, p.get("dilations") or ones,
            p.get("pads_begin") or zeros, p.get("pads_end") or zeros)


def window_pads(p, x, kernel):
    strides, dilations, begin, end = window(p, len(kernel))
    auto = p.get("auto_pad", "explicit")
    if auto == "valid":
        return [0] * len(kernel), [0] * len(kernel)
    if auto == "explicit":
        return list(begin), list(end)
    begin, end = [], []
    for i, k in enumerate(kernel):
        size = x.shape[2 + i]
        out = -(-size // strides[i])
        total = max(0, (out - 1) * strides[i] + (k - 1) * dilations[i] + 1 - size)
        small, large = total // 2, total - total // 2
        begin.append(small if auto == "same_upper" else large)
        end.append(large if auto == "same_upper" else small)
    return begin, end


def pad_with(x, begin, end, value):
    """F.pad counts from the last axis."""
    flat = [n for pair in reversed(list(zip(begin, end))) for n in pair]
    return F.pad(x, flat, value=value) if any(flat) else x


def by_rank(functions, spatial):
    if spatial not in (1, 2, 3):
        raise Refused("PyTorch slides windows over 1 to 3 axes, not %d" % spatial)
    return functions[spatial - 1]


@op("conv")
def conv(p, node, constants):
    groups = p.get("groups", 1)

    def forward(x, w, b=None):
        spatial = w.dim() - 2
        function = by_rank((F.conv1d, F.conv2d, F.conv3d), spatial)
        strides, dilations, _, _ = window(p, spatial)
        begin, end = window_pads(p, x, w.shape[2:])
        if begin != end:
            x = pad_with(x, begin, end, 0.0)
            begin = [0] * spatial
        return function(x, w, b, strides, begin, dilations, groups)
    return forward


@op("conv_channels_last")
def conv_channels_last(p, node, constants):
    forward = conv(p, node, constants)

    def turned(x, w, b=None):
        # PyTorch keeps the order of memory (channels_last); only the axes' names change.
        return torch.movedim(forward(torch.movedim(x, -1, 1), w, b), 1, -1)
    return turned


@op("conv_transpose")
def conv_transpose(p, node, constants):
    groups = p.get("groups", 1)
    output_shape = p.get("output_shape") or []
    if p.get("auto_pad", "explicit") not in ("explicit", "valid") or output_shape:
        raise Refused("PyTorch's transposed convolution takes explicit padding only")

    def forward(x, w, b=None):
        spatial = w.dim() - 2
        function = by_rank((F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d), spatial)
        strides, dilations, begin, end = window(p, spatial)
        extra = list(p.get("output_padding") or [0] * spatial)
        # More padding at the end cuts the end of the output: the same as less output padding.
        same = [min(b_, e) for b_, e in zip(begin, end)]
        y = function(x, w, b, strides, same, 0, groups, dilations) if not any(extra) else \
            function(x, w, b, strides, same, extra, groups, dilations)
        for i, (b_, e) in enumerate(zip(begin, end)):
            y = y.narrow(2 + i, b_ - same[i], y.shape[2 + i] - (b_ - same[i]) - (e - same[i]))
        return y
    return forward


@op("col2im")
def col2im(p, node, constants):
    def forward(x, image_shape=None, block_shape=None):
        image = ints(image_shape, p.get("image_shape") or [])
        block = ints(block_shape, p.get("block_shape") or [])
        if len(image) != 2:
            raise Refused("PyTorch's fold makes images of 2 axes, not %d" % len(image))
        strides, dilations, begin, end = window(p, 2)
        if begin != end:
            raise Refused("PyTorch's fold pads both sides alike")
        return F.fold(x, image, block, dilations, begin, strides)
    return forward


@op("max_pool")
def max_pool(p, node, constants):
    kernel = p["kernel"]
    indices = p.get("indices", "none")
    wanted = len(node["outputs"]) > 1 and node["outputs"][1]
    if wanted and (indices != "plane" or p.get("column_major")):
        raise Refused("PyTorch's indices count row-major within a plane, not '%s'" % indices)

    def forward(x):
        function = by_rank((F.max_pool1d, F.max_pool2d, F.max_pool3d), len(kernel))
        strides, dilations, _, _ = window(p, len(kernel))
        begin, end = window_pads(p, x, kernel)
        padding = begin
        # Beyond half a window, or uneven: -inf never wins. (With indices it would be counted.)
        if begin != end or any(2 * b > k for b, k in zip(begin, kernel)):
            if wanted:
                raise Refused("PyTorch gives indices with even padding up to half a window only")
            x = pad_with(x, begin, end, float("-inf"))
            padding = [0] * len(kernel)
        return function(x, kernel, strides, padding, dilations, p.get("ceil_mode", False),
                        return_indices=bool(wanted))
    return forward


@op("avg_pool")
def avg_pool(p, node, constants):
    kernel = p["kernel"]
    counted = p.get("count_include_pad", False)
    divisor = p.get("divisor_override", 0)

    def forward(x):
        function = by_rank((F.avg_pool1d, F.avg_pool2d, F.avg_pool3d), len(kernel))
        strides, dilations, _, _ = window(p, len(kernel))
        if any(d != 1 for d in dilations):
            raise Refused("PyTorch's average pooling has no dilation")
        begin, end = window_pads(p, x, kernel)
        padding = begin
        if begin != end or any(2 * b > k for b, k in zip(begin, kernel)):
            if not counted and not divisor:
                raise Refused("PyTorch averages without the padding only where it is even and at "
                              "most half a window")
            if p.get("ceil_mode"):
                raise Refused("PyTorch does not tell padding from what ceil_mode adds beyond it")
            x = pad_with(x, begin, end, 0.0)
            padding = [0] * len(kernel)
        rest = [divisor] if divisor and len(kernel) > 1 else []
        if divisor and not rest:
            raise Refused("PyTorch has no divisor_override in 1-D")
        return function(x, kernel, strides, padding, p.get("ceil_mode", False), counted, *rest)
    return forward


@op("lp_pool")
def lp_pool(p, node, constants):
    raise Refused("F.lp_pool sums x^p, not |x|^p, and takes no padding: another operation")


@op("global_max_pool")
def global_max_pool(p, node, constants):
    return lambda x: by_rank((F.adaptive_max_pool1d, F.adaptive_max_pool2d, F.adaptive_max_pool3d),
                             x.dim() - 2)(x, 1)


@op("global_avg_pool")
def global_avg_pool(p, node, constants):
    return lambda x: by_rank((F.adaptive_avg_pool1d, F.adaptive_avg_pool2d, F.adaptive_avg_pool3d),
                             x.dim() - 2)(x, 1)


@op("global_lp_pool")
def global_lp_pool(p, node, constants):
    return lambda x: torch.linalg.vector_norm(x, float(p.get("p", 2)),
                                              dim=tuple(range(2, x.dim())), keepdim=True)
