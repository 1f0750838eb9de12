"""Elementwise arithmetic, comparisons, logic, casts and activations."""
import torch
import torch.nn.functional as F

from protocol import Refused
from registry import number, op

TYPES = {"f64": torch.float64, "f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16,
         "i64": torch.int64, "i32": torch.int32, "i16": torch.int16, "i8": torch.int8,
         "u8": torch.uint8, "bool": torch.bool}


def plain(name, function):
    @op(name)
    def build(p, node, constants):
        return function


def divide(a, b):
    return torch.div(a, b) if a.is_floating_point() else torch.div(a, b, rounding_mode="trunc")


for _name, _function in {
        "add": torch.add, "sub": torch.sub, "mul": torch.mul, "div": divide, "pow": torch.pow,
        "equal": torch.eq, "less": torch.lt, "greater": torch.gt, "less_or_equal": torch.le,
        "greater_or_equal": torch.ge, "and": torch.logical_and, "or": torch.logical_or,
        "xor": torch.logical_xor, "not": torch.logical_not, "bitwise_and": torch.bitwise_and,
        "bitwise_or": torch.bitwise_or, "bitwise_xor": torch.bitwise_xor,
        "bitwise_not": torch.bitwise_not, "where": torch.where, "is_nan": torch.isnan,
        # one operand
        "abs": torch.abs, "neg": torch.neg, "sign": torch.sign, "floor": torch.floor,
        "ceil": torch.ceil, "round": torch.round, "sqrt": torch.sqrt,
        "reciprocal": torch.reciprocal, "rsqrt": torch.rsqrt, "exp": torch.exp, "log": torch.log,
        "exp2": torch.exp2, "log2": torch.log2, "log10": torch.log10, "expm1": torch.expm1,
        "log1p": torch.log1p, "erf": torch.erf, "erfc": torch.erfc, "sin": torch.sin,
        "cos": torch.cos, "tan": torch.tan, "asin": torch.asin, "acos": torch.acos,
        "atan": torch.atan, "sinh": torch.sinh, "cosh": torch.cosh, "tanh": torch.tanh,
        "asinh": torch.asinh, "acosh": torch.acosh, "atanh": torch.atanh,
        "sigmoid": torch.sigmoid, "relu": F.relu, "softsign": F.softsign,
        "hard_swish": F.hardswish, "mish": F.mish, "log_sigmoid": F.logsigmoid}.items():
    plain(_name, _function)


def fold(name, function, finish=lambda y, n: y):
    @op(name)
    def build(p, node, constants):
        def forward(*operands):
            y = operands[0]
            for x in operands[1:]:
                y = function(y, x)
            return finish(y, len(operands))
        return forward


fold("max", torch.maximum)
fold("min", torch.minimum)
fold("sum", torch.add)
fold("mean", torch.add, lambda y, n: y / n)


@op("mod")
def mod(p, node, constants):
    return torch.fmod if p.get("fmod") else torch.remainder


@op("clip")
def clip(p, node, constants):
    low, high = number(p.get("min", "-inf")), number(p.get("max", "inf"))

    def forward(x, lo=None, hi=None):
        if lo is not None or hi is not None:
            if x.is_floating_point():
                lo = x.new_full((), low) if lo is None else lo
                hi = x.new_full((), high) if hi is None else hi
            return torch.clamp(x, lo, hi)
        bounds = {}
        if low != float("-inf"):
            bounds["min"] = low if x.is_floating_point() else int(low)
        if high != float("inf"):
            bounds["max"] = high if x.is_floating_point() else int(high)
        return torch.clamp(x, **bounds) if bounds else x.clone()
    return forward


@op("is_inf")
def is_inf(p, node, constants):
    negative, positive = p.get("detect_negative", True), p.get("detect_positive", True)
    if negative and positive:
        return torch.isinf
    return torch.isneginf if negative else torch.isposinf if positive else torch.zeros_like


@op("bit_shift")
def bit_shift(p, node, constants):
    return torch.bitwise_left_shift if p.get("direction", "LEFT") == "LEFT" else \
        torch.bitwise_right_shift


@op("cast")
def cast(p, node, constants):
    if p["to"] not in TYPES:
        raise Refused("PyTorch casts to no type %s" % p["to"])
    return lambda x: x.to(TYPES[p["to"]])


# -- activations with parameters --------------------------------------------------------------


@op("leaky_relu")
def leaky_relu(p, node, constants):
    return lambda x: F.leaky_relu(x, number(p.get("alpha", 0.01)))


@op("elu")
def elu(p, node, constants):
    return lambda x: F.elu(x, number(p.get("alpha", 1)))


@op("celu")
def celu(p, node, constants):
    return lambda x: F.celu(x, number(p.get("alpha", 1)))


@op("selu")
def selu(p, node, constants):
    # nn.SELU has its two constants built in, as doubles.
    alpha, gamma = number(p.get("alpha", 1.67326)), number(p.get("gamma", 1.0507))
    if abs(alpha - 1.6732632423543772) > 1e-6 or abs(gamma - 1.0507009873554805) > 1e-6:
        raise Refused("PyTorch's selu has fixed constants, not alpha %g, gamma %g" % (alpha, gamma))
    return F.selu


@op("prelu")
def prelu(p, node, constants):
    def forward(x, slope):
        if slope.numel() == 1 or (x.dim() > 1 and slope.numel() == x.shape[1] and
                                  slope.dim() == x.dim() - 1 and slope.shape[0] == x.shape[1]):
            return F.prelu(x, slope.reshape(-1))
        raise Refused("PyTorch's prelu has one slope, or one for each channel")
    return forward


@op("softplus")
def softplus(p, node, constants):
    # PyTorch's default threshold of 20 stays where none is asked for: beyond it x differs from
    # softplus by less than half an ULP of f32.
    threshold = number(p.get("threshold", "inf"))
    threshold = 20 if threshold == float("inf") else threshold
    return lambda x: F.softplus(x, number(p.get("beta", 1)), threshold)


@op("hard_tanh")
def hard_tanh(p, node, constants):
    return lambda x: F.hardtanh(x, number(p.get("min", -1)), number(p.get("max", 1)))


@op("softshrink")
def softshrink(p, node, constants):
    return lambda x: F.softshrink(x, number(p.get("lambd", 0.5)))


@op("thresholded_relu")
def thresholded_relu(p, node, constants):
    return lambda x: F.threshold(x, number(p.get("alpha", 1)), 0.0)


@op("hard_sigmoid")
def hard_sigmoid(p, node, constants):
    alpha, beta = number(p.get("alpha", 0.2)), number(p.get("beta", 0.5))
    if abs(alpha - 1 / 6) < 1e-7 and beta == 0.5:
        return F.hardsigmoid
    # Keras' and ONNX's slope: written as a user of PyTorch would, three operations.
    return lambda x: torch.clamp(x * alpha + beta, 0, 1)


@op("gelu")
def gelu(p, node, constants):
    kind = p.get("approximate", "none")
    return lambda x: F.gelu(x, approximate=kind) if kind != "none" else F.gelu(x)


@op("silu")
def silu(p, node, constants):
    alpha = number(p.get("alpha", 1))
    return F.silu if alpha == 1 else lambda x: x * torch.sigmoid(alpha * x)


@op("shrink")
def shrink(p, node, constants):
    lambd, bias = number(p.get("lambd", 0.5)), number(p.get("bias", 0))
    if bias == lambd:
        return lambda x: F.softshrink(x, lambd)
    if bias == 0:
        return lambda x: F.hardshrink(x, lambd)
    raise Refused("PyTorch shrinks by the threshold itself or not at all, not by %g" % bias)


def along_axis(name, function):
    @op(name)
    def build(p, node, constants):
        axis = p.get("axis", -1)
        if not p.get("flatten"):
            return lambda x: function(x, axis)

        def forward(x):  # ONNX before opset 13: over all axes from `axis` on
            return function(x.flatten(axis % x.dim()), -1).reshape(x.shape)
        return forward


along_axis("softmax", F.softmax)
along_axis("log_softmax", F.log_softmax)


@op("hardmax")
def hardmax(p, node, constants):
    if p.get("flatten"):
        raise Refused("one axis only")

    def forward(x):
        axis = p.get("axis", -1)
        return torch.zeros_like(x).scatter_(axis, torch.argmax(x, axis, keepdim=True), 1)
    return forward


@op("dropout")
def dropout(p, node, constants):
    def forward(x, *unused):
        y = F.dropout(x, training=False)
        return (y, torch.ones_like(x, dtype=torch.bool))
    return forward
