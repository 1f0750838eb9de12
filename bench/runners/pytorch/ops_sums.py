"""Matrix products and reductions."""
import torch
import torch.nn.functional as F

from protocol import Refused
from registry import ints, number, op


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


@op("matmul")
def matmul(p, node, constants):
    return torch.matmul


def axes_of(p, x, axes):
    """None: nothing is to be reduced."""
    axes = ints(axes, p.get("axes") or [])
    if axes:
        return sorted({a % x.dim() for a in axes})
    return None if p.get("noop_with_empty_axes") else list(range(x.dim()))


def reduction(name, function, alone=lambda x: x):
    """function(x, axes, keepdim); alone: what becomes of a single element."""
    @op(name)
    def build(p, node, constants):
        keep = p.get("keepdims", True)

        def forward(x, axes=None):
            axes = axes_of(p, x, axes)
            if axes is None or x.dim() == 0:
                return alone(x)
            return function(x, axes, keep)
        return forward


def same_type(function):
    """PyTorch's integer sums are i64; the definition keeps the type, modulo 2^bits."""
    return lambda x, axes, keep: function(x, axes, keep).to(x.dtype)


def floating(x, what):
    if not x.is_floating_point():
        raise Refused("PyTorch's %s takes floating types only" % what)
    return x


def product(x, axes, keep):
    # torch.prod takes one axis: the axes are brought together first.
    kept = [a for a in range(x.dim()) if a not in axes]
    y = x.permute(kept + axes).flatten(len(kept)) if len(axes) > 1 or axes[0] != x.dim() - 1 else x
    y = torch.prod(y, dim=-1, dtype=x.dtype)
    if keep:
        for a in axes:
            y = y.unsqueeze(a)
    return y


reduction("reduce_sum", same_type(lambda x, a, k: torch.sum(x, a, k)))
reduction("reduce_mean", lambda x, a, k: torch.mean(floating(x, "mean"), a, k))
reduction("reduce_max", lambda x, a, k: torch.amax(x, a, k))
reduction("reduce_min", lambda x, a, k: torch.amin(x, a, k))
reduction("reduce_prod", product)
reduction("reduce_l1", same_type(lambda x, a, k: torch.sum(torch.abs(x), a, k)), torch.abs)
reduction("reduce_l2", lambda x, a, k: torch.linalg.vector_norm(floating(x, "vector_norm"), 2, a, k),
          torch.abs)
reduction("reduce_sum_square", same_type(lambda x, a, k: torch.sum(torch.square(x), a, k)),
          torch.square)
reduction("reduce_log_sum", lambda x, a, k: torch.log(torch.sum(floating(x, "log"), a, k)),
          torch.log)
reduction("reduce_log_sum_exp", lambda x, a, k: torch.logsumexp(floating(x, "logsumexp"), a, k))


def extreme(name, function):
    @op(name)
    def build(p, node, constants):
        axis, keep = p.get("axis", 0), p.get("keepdims", True)
        if p.get("select_last_index"):
            raise Refused("PyTorch does not promise the last of several equal elements")
        return lambda x: function(x, axis, keep)


extreme("arg_max", torch.argmax)
extreme("arg_min", torch.argmin)


@op("top_k")
def top_k(p, node, constants):
    axis, largest, in_order = p.get("axis", -1), p.get("largest", True), p.get("sorted", True)

    def forward(x, k=None):
        return tuple(torch.topk(x, ints(k, [p.get("k", 1)])[0], axis, largest, in_order))
    return forward


def cumulative(name, function):
    @op(name)
    def build(p, node, constants):
        if p.get("exclusive"):
            raise Refused("PyTorch has no exclusive running sum")

        def forward(x, axis=None):
            axis = ints(axis, [p.get("axis", 0)])[0]
            if p.get("reverse"):
                return torch.flip(function(torch.flip(x, [axis]), axis), [axis])
            return function(x, axis)
        return forward


cumulative("cum_sum", lambda x, axis: torch.cumsum(x, axis, dtype=x.dtype))
cumulative("cum_prod", lambda x, axis: torch.cumprod(x, axis, dtype=x.dtype))
