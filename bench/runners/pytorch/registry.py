"""Which function of PyTorch stands for which op of the neutral graph.

A builder gets `p` (the node's parameters, fields as in engine/ops), the node and its constants
(name -> tensor of those inputs that are weights); it returns a callable that takes one tensor per
input (None where an optional one is absent) and returns one tensor or a tuple. What PyTorch has
under its own name is called under that name, because it is PyTorch's kernel that is judged; what it
has not is refused, never imitated by arithmetic of our own.
"""
from protocol import Refused

BUILDERS = {}


def op(*names):
    def register(builder):
        for name in names:
            BUILDERS[name] = builder
        return builder
    return register


def build(node, constants):
    if node["op"] not in BUILDERS:
        raise Refused("this adapter has no counterpart of the op %s" % node["op"])
    return BUILDERS[node["op"]](dict(node.get("params", {})), node, constants)


def number(value):
    """A float parameter; JSON has no infinities, so they come as text."""
    return float(value)


def ints(given, otherwise):
    """Numbers that may come as an input, which then stands over the parameter."""
    if given is None:
        return list(otherwise)
    return [int(v) for v in given.reshape(-1).tolist()]
