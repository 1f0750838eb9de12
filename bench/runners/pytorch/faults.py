"""Deliberate faults in the live network: the verdicts are tested on these, untold.

Precision faults round the first two floating inputs of one node, as reduced-precision hardware
does: tf32 by truncation of the low 13 bits (what tensor cores are published to do), bf16 and f16
to nearest. bf16_accumulate keeps f32 inputs and rounds the running sum to bf16 after every term.
"""
import torch
import torch.nn.functional as F

from ops_window import pad_with, window, window_pads
from protocol import Refused


def tf32(x):
    return (x.contiguous().view(torch.int32) & ~0x1fff).view(torch.float32)


PRECISION = {"tf32": tf32, "bf16": lambda x: x.bfloat16().float(), "f16": lambda x: x.half().float()}


def wrap(node, function):
    kind = node["fault"]
    if kind == "bf16_accumulate":
        return accumulate_bf16(node)

    def forward(*inputs):
        inputs = [PRECISION[kind](x) if i < 2 and x is not None and x.dtype == torch.float32 else x
                  for i, x in enumerate(inputs)]
        return function(*inputs)
    return forward


def sum_bf16(a, b):
    """a [..., K], b [K, N]: the running sum is rounded to bf16 after each product."""
    total = torch.zeros(a.shape[:-1] + b.shape[-1:])
    for k in range(a.shape[-1]):
        total = (total + a[..., k:k + 1] * b[k]).bfloat16().float()
    return total


def accumulate_bf16(node):
    p = node.get("params", {})
    if node["op"] == "gemm":
        def forward(a, b, c=None):
            y = sum_bf16(a.t() if p.get("trans_a") else a, b.t() if p.get("trans_b") else b)
            y = y * float(p.get("alpha", 1))
            return y if c is None else y + c * float(p.get("beta", 1))
        return forward
    if node["op"] == "matmul":
        return lambda a, b: sum_bf16(a, b)
    if node["op"] == "conv":
        def forward(x, w, b=None):
            if w.dim() != 4:
                raise Refused("bf16_accumulate is planted in 2-D convolutions only")
            strides, dilations, _, _ = window(p, 2)
            begin, end = window_pads(p, x, w.shape[2:])
            x = pad_with(x, begin, end, 0.0)
            groups = p.get("groups", 1)
            out = [(x.shape[2 + i] - (w.shape[2 + i] - 1) * dilations[i] - 1) // strides[i] + 1
                   for i in (0, 1)]
            parts = []
            for xg, wg in zip(x.chunk(groups, 1), w.chunk(groups, 0)):
                columns = F.unfold(xg, w.shape[2:], dilation=dilations, stride=strides)
                y = sum_bf16(columns.transpose(1, 2), wg.reshape(wg.shape[0], -1).t())
                parts.append(y.transpose(1, 2).reshape(x.shape[0], wg.shape[0], *out))
            y = torch.cat(parts, 1)
            return y if b is None else y + b.reshape(1, -1, 1, 1)
        return forward
    raise Refused("bf16_accumulate is planted in sums of products only", node["name"], node["op"])


def flip_bit(tensor, index, bit):
    storage = {2: torch.int16, 4: torch.int32, 8: torch.int64, 1: torch.uint8}
    bits = tensor.data.view(storage[tensor.element_size()]).reshape(-1)
    width = 8 * tensor.element_size()
    mask = 1 << bit
    bits[index] ^= mask - (1 << width) if bit == width - 1 and width > 8 else mask


def plant(network, request):
    kind = request["kind"]
    if kind == "flush_denormals":
        if not torch.set_flush_denormal(True):
            raise Refused("this machine cannot flush subnormals")
        return
    if kind == "weight_bit":
        if request["parameter"] not in network.weights:
            raise Refused("the network has no parameter '%s'" % request["parameter"])
        flip_bit(network.weight(request["parameter"]), request["index"], request["bit"])
        network.build()
        return
    nodes = [n for n in network.nodes
             if n["name"] == request.get("node") or request.get("node") in n["outputs"]]
    if not nodes:
        raise Refused("the graph has no node '%s'" % request.get("node"))
    node = nodes[0]
    p = node.setdefault("params", {})
    if kind in PRECISION or kind == "bf16_accumulate":
        node["fault"] = kind
        if kind == "bf16_accumulate":
            accumulate_bf16(node)  # refuses here when the op is not a sum
    elif kind == "epsilon":
        if "eps" not in p:
            raise Refused("this op has no epsilon", node["name"], node["op"])
        p["eps"] = request["value"]
    elif kind == "padding":
        swap_padding(node, p)
    elif kind == "count_include_pad":
        if kind not in p:
            raise Refused("this op has no count_include_pad", node["name"], node["op"])
        p[kind] = not p[kind]
    elif kind == "gate_order":
        if node["op"] not in ("lstm", "gru"):
            raise Refused("only lstm and gru have gates", node["name"], node["op"])
        # The blocks are read in another order than they were written.
        gates = list(p["gates"])
        first, second = request.get("first", 1), request.get("second", 2)
        gates[first], gates[second] = gates[second], gates[first]
        p["gates"] = "".join(gates)
    else:
        raise Refused("this adapter cannot plant '%s'" % kind)
    network.build()


def swap_padding(node, p):
    """Ends and beginnings change places: the other way to split an odd padding."""
    auto = p.get("auto_pad", "explicit")
    if auto in ("same_upper", "same_lower"):
        p["auto_pad"] = "same_lower" if auto == "same_upper" else "same_upper"
        return
    if "pads_begin" not in p or p["pads_begin"] == p["pads_end"]:
        raise Refused("the padding is symmetric: swapping it changes nothing", node["name"],
                      node["op"])
    p["pads_begin"], p["pads_end"] = p["pads_end"], p["pads_begin"]
