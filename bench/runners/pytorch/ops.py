"""One builder per op of the neutral graph: parameters in, a function of tensors out.

A builder gets `p` (the node's parameters, fields as in engine/ops) and `node`; it returns a
callable that takes one tensor per input (None where an optional one is absent) and returns one
tensor or a tuple. What PyTorch has under its own name is called under that name, because it is
PyTorch's kernel that is judged; what it has not is refused, never imitated by our own arithmetic.
"""
import torch
import torch.nn.functional as F

from protocol import Refused

BUILDERS = {}


def op(*names):
    def register(builder):
        for name in names:
            BUILDERS[name] = builder
        return builder
    return register


def build(node, constants):
    """constants: name -> tensor of those inputs that are weights."""
    if node["op"] not in BUILDERS:
        raise Refused("this adapter has no counterpart of the op %s" % node["op"])
    return BUILDERS[node["op"]](dict(node.get("params", {})), node, constants)


def number(value):
    """A float parameter; JSON has no infinities, so they come as text."""
    return float(value)


# -- windows ----------------------------------------------------------------------------------


def window(p, spatial):
    """strides, dilations, (begin, end) padding with the defaults of WindowParams."""
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


# -- sums of products -------------------------------------------------------------------------


@op("conv")
def conv(p, node, constants):
    groups = p.get("groups", 1)

    def forward(x, w, b=None):
        spatial = w.dim() - 2
        if spatial not in (1, 2, 3):
            raise Refused("PyTorch convolves over 1 to 3 axes, not %d" % spatial)
        function = (F.conv1d, F.conv2d, F.conv3d)[spatial - 1]
        strides, dilations, _, _ = window(p, spatial)
        begin, end = window_pads(p, x, w.shape[2:])
        if begin != end:
            # PyTorch pads both sides alike: the rest is zeros put there first.
            x = pad_with(x, begin, end, 0.0)
            begin = [0] * spatial
        return function(x, w, b, strides, begin, dilations, groups)
    return forward


@op("gemm")
def gemm(p, node, constants):
    alpha, beta = number(p.get("alpha", 1)), number(p.get("beta", 1))
    trans_a, trans_b = p.get("trans_a", False), p.get("trans_b", False)

    def forward(a, b, c=None):
        if trans_b and not trans_a and alpha == 1 and (c is None or (beta == 1 and c.dim() == 1)):
            return F.linear(a, b, c)  # nn.Linear: what a user of PyTorch has here
        a, b = a.t() if trans_a else a, b.t() if trans_b else b
        if c is not None:
            return torch.addmm(c, a, b, beta=beta, alpha=alpha)
        product = torch.mm(a, b)
        return product if alpha == 1 else product * alpha
    return forward


# -- activations ------------------------------------------------------------------------------


@op("relu")
def relu(p, node, constants):
    return F.relu
