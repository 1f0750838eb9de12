"""Ops that move elements, read or write where indices say, and make tensors from shapes."""
import torch
import torch.nn.functional as F

from ops_elementwise import TYPES
from protocol import Refused
from registry import ints, number, op


@op("identity")
def identity(p, node, constants):
    return lambda x: x


@op("reshape")
def reshape(p, node, constants):
    def forward(x, shape=None):
        wanted = ints(shape, p.get("shape") or [])
        if not p.get("allowzero"):
            wanted = [x.shape[i] if n == 0 else n for i, n in enumerate(wanted)]
        return torch.reshape(x, wanted)
    return forward


@op("flatten")
def flatten(p, node, constants):
    def forward(x):
        axis = p.get("axis", 1)
        axis = axis + x.dim() if axis < 0 else axis
        rows = 1
        for n in x.shape[:axis]:
            rows *= n
        return torch.flatten(x, 1) if axis == 1 and x.dim() > 1 else x.reshape(rows, -1)
    return forward


@op("squeeze")
def squeeze(p, node, constants):
    def forward(x, axes=None):
        axes = ints(axes, p.get("axes") or [])
        if not axes:
            return torch.squeeze(x)
        for a in sorted((a % x.dim() for a in axes), reverse=True):
            x = torch.squeeze(x, a)
        return x
    return forward


@op("unsqueeze")
def unsqueeze(p, node, constants):
    def forward(x, axes=None):
        axes = ints(axes, p.get("axes") or [])
        rank = x.dim() + len(axes)
        for a in sorted(a % rank for a in axes):
            x = torch.unsqueeze(x, a)
        return x
    return forward


@op("transpose")
def transpose(p, node, constants):
    return lambda x: x.permute(p.get("perm") or list(reversed(range(x.dim()))))


@op("expand")
def expand(p, node, constants):
    def forward(x, shape=None):
        return x.expand(torch.broadcast_shapes(tuple(x.shape),
                                               tuple(ints(shape, p.get("shape") or []))))
    return forward


@op("tile")
def tile(p, node, constants):
    return lambda x, repeats=None: torch.tile(x, tuple(ints(repeats, p.get("repeats") or [])))


@op("concat")
def concat(p, node, constants):
    return lambda *xs: torch.cat(xs, p.get("axis", 0))


@op("split")
def split(p, node, constants):
    def forward(x, sizes=None):
        axis = p.get("axis", 0)
        sizes = ints(sizes, p.get("split") or [])
        if not sizes:
            parts = p.get("num_outputs") or len(node["outputs"])
            return torch.split(x, -(-x.shape[axis] // parts), axis)
        return torch.split(x, sizes, axis)
    return forward


@op("slice")
def slice_(p, node, constants):
    def forward(x, starts=None, ends=None, axes=None, steps=None):
        starts, ends = ints(starts, p.get("starts") or []), ints(ends, p.get("ends") or [])
        axes = ints(axes, p.get("axes") or []) or list(range(len(starts)))
        steps = ints(steps, p.get("steps") or []) or [1] * len(starts)
        for a, start, end, step in zip(axes, starts, ends, steps):
            kept = range(*slice(start, end, step).indices(x.shape[a]))
            if step < 0 and end < 0 and end < -x.shape[a]:
                kept = range(*slice(start, None, step).indices(x.shape[a]))
            if step > 0:
                x = x[(slice(None),) * (a % x.dim()) + (slice(start, end, step),)]
            else:
                x = torch.index_select(x, a, torch.tensor(list(kept), dtype=torch.int64,
                                                          device=x.device))
        return x
    return forward


@op("pad")
def pad(p, node, constants):
    modes = {"constant": "constant", "reflect": "reflect", "edge": "replicate", "wrap": "circular"}
    mode = p.get("mode", "constant")

    def forward(x, pads=None, value=None, axes=None):
        pads = ints(pads, p.get("pads") or [])
        axes = ints(axes, p.get("axes") or []) or list(range(x.dim()))
        half = len(pads) // 2
        begin, end = [0] * x.dim(), [0] * x.dim()
        for a, b, e in zip(axes, pads[:half], pads[half:]):
            begin[a], end[a] = b, e
        filler = value.item() if value is not None else number(p.get("value", 0))
        flat = [n for pair in reversed(list(zip(begin, end))) for n in pair]
        if mode == "constant":
            return F.pad(x, flat, value=filler)
        # These modes pad the last axes of [N, C, ...] only.
        used = max((i + 1 for i, n in enumerate(flat) if n), default=0)
        used += used % 2
        if used > 2 * (x.dim() - 2) or x.dim() < 3:
            raise Refused("PyTorch's %s padding leaves the first two axes alone" % modes[mode])
        return F.pad(x, flat[:2 * (x.dim() - 2)], mode=modes[mode])
    return forward


@op("depth_to_space")
def depth_to_space(p, node, constants):
    b = p.get("blocksize", 1)
    if p.get("mode", "DCR") == "CRD":
        return lambda x: F.pixel_shuffle(x, b)

    def forward(x):
        n, c, h, w = x.shape
        y = x.reshape(n, b, b, c // (b * b), h, w).permute(0, 3, 4, 1, 5, 2)
        return y.reshape(n, c // (b * b), h * b, w * b)
    return forward


@op("space_to_depth")
def space_to_depth(p, node, constants):
    b = p.get("blocksize", 1)

    def forward(x):
        n, c, h, w = x.shape
        order = (0, 1, 3, 5, 2, 4) if p.get("mode", "DCR") == "CRD" else (0, 3, 5, 1, 2, 4)
        y = x.reshape(n, c, h // b, b, w // b, b).permute(*order)
        return y.reshape(n, c * b * b, h // b, w // b)
    return forward


@op("reverse_sequence")
def reverse_sequence(p, node, constants):
    def forward(x, lengths):
        time, batch = p.get("time_axis", 0), p.get("batch_axis", 1)
        y = x.clone()
        for i, n in enumerate(lengths.tolist()):
            rows = y.select(batch, i)
            axis = time - (1 if time > batch else 0)
            rows.narrow(axis, 0, n).copy_(torch.flip(x.select(batch, i).narrow(axis, 0, n), [axis]))
        return y
    return forward


@op("trilu")
def trilu(p, node, constants):
    function = torch.triu if p.get("upper", True) else torch.tril
    return lambda x, k=None: function(x, ints(k, [p.get("k", 0)])[0])


# -- indices ----------------------------------------------------------------------------------


def positive(indices, extent):
    indices = indices.long()
    return torch.where(indices < 0, indices + extent, indices)


@op("gather")
def gather(p, node, constants):
    axis = p.get("axis", 0)
    table = node["inputs"][0] in constants

    def forward(x, indices):
        if indices.numel() and (int(indices.min()) < -x.shape[axis] or
                                int(indices.max()) >= x.shape[axis]):
            raise Refused("an index lies outside the axis")
        flat = positive(indices, x.shape[axis])
        if axis == 0 and x.dim() == 2 and table and x.is_floating_point():
            return F.embedding(flat, x)  # nn.Embedding: what a table of weights is read with
        y = torch.index_select(x, axis, flat.reshape(-1))
        at = axis % x.dim()
        return y.reshape(tuple(x.shape[:at]) + tuple(indices.shape) + tuple(x.shape[at + 1:]))
    return forward


@op("gather_elements")
def gather_elements(p, node, constants):
    def forward(x, indices):
        axis = p.get("axis", 0)
        return torch.gather(x, axis, positive(indices, x.shape[axis]))
    return forward


@op("gather_nd")
def gather_nd(p, node, constants):
    if p.get("batch_dims", 0):
        raise Refused("PyTorch's indexing has no batch_dims")
    return lambda x, indices: x[tuple(indices.long().unbind(-1))]


@op("scatter_elements")
def scatter_elements(p, node, constants):
    how = {"none": None, "add": "sum", "mul": "prod", "max": "amax", "min": "amin"}
    reduction = how[p.get("reduction", "none")]

    def forward(x, indices, updates):
        axis = p.get("axis", 0)
        indices = positive(indices, x.shape[axis])
        if reduction is None:
            return torch.scatter(x, axis, indices, updates)
        return torch.scatter_reduce(x, axis, indices, updates, reduction)
    return forward


@op("scatter_nd")
def scatter_nd(p, node, constants):
    if p.get("reduction", "none") not in ("none", "add"):
        raise Refused("PyTorch's index_put overwrites or adds")

    def forward(x, indices, updates):
        return torch.index_put(x, tuple(indices.long().unbind(-1)), updates,
                               accumulate=p.get("reduction", "none") == "add")
    return forward


@op("one_hot")
def one_hot(p, node, constants):
    raise Refused("PyTorch's one_hot knows no values but 0 and 1, and no index outside")


@op("shape")
def shape_(p, node, constants):
    return lambda x: torch.tensor(list(x.shape)[p.get("start", 0):p.get("end", 8)],
                                  dtype=torch.int64)


@op("size")
def size(p, node, constants):
    return lambda x: torch.tensor(x.numel(), dtype=torch.int64)


@op("range")
def range_(p, node, constants):
    return lambda start, limit, delta: torch.arange(start.item(), limit.item(), delta.item(),
                                                    dtype=start.dtype)


@op("constant_of_shape")
def constant_of_shape(p, node, constants):
    def forward(shape, value=None):
        if value is None:
            return torch.zeros(ints(shape, []), dtype=torch.float32)
        return torch.full(ints(shape, []), value.reshape(-1)[0].item(), dtype=value.dtype)
    return forward


@op("eye_like")
def eye_like(p, node, constants):
    k = p.get("k", 0)
    if k:
        raise Refused("torch.eye has the main diagonal only")
    return lambda x: torch.eye(x.shape[0], x.shape[1], device=x.device,
                               dtype=TYPES[p["dtype"]] if p.get("dtype") else x.dtype)


@op("non_zero")
def non_zero(p, node, constants):
    return lambda x: torch.nonzero(x).t()
