"""LSTM, GRU and plain recurrence, through torch.nn's own modules.

The graph's weights are [directions, gates*hidden, inputs], gates in the order that the node names;
torch's modules hold [gates*hidden, inputs] for each direction, in their own order (LSTM i f g o,
GRU r z n). Reordering moves rows and computes nothing. What the modules cannot do (peepholes,
clipping, other activations, coupled gates, a reset before the product) is refused.
"""
import torch

from protocol import Refused
from registry import op

ORDER = {"lstm": "ifco", "gru": "rzh", "rnn": "h"}
ACTIVATIONS = {"lstm": ["sigmoid", "tanh", "tanh"], "gru": ["sigmoid", "tanh"], "rnn": ["tanh"]}


class Recurrent(torch.nn.Module):
    def __init__(self, kind, p, node, constants):
        super().__init__()
        names = (list(node["inputs"]) + [""] * 8)[:8]
        self.names = names[1:4]
        self.kind, self.gates = kind, p.get("gates") or {"lstm": "iofc", "gru": "zrh",
                                                         "rnn": "h"}[kind]
        self.reverse = p.get("direction", "forward") == "reverse"
        self.batch_first = p.get("batch_first", False)
        both = p.get("direction", "forward") == "bidirectional"
        self.directions = 2 if both else 1
        if names[7]:
            raise Refused("torch.nn.LSTM has no peepholes")
        if float(p.get("clip", 0)) > 0:
            raise Refused("torch.nn's recurrent modules do not clip")
        if p.get("input_forget"):
            raise Refused("torch.nn.LSTM does not couple its input and forget gates")
        if kind == "gru" and not p.get("linear_before_reset"):
            raise Refused("torch.nn.GRU resets after the product, this one before")
        given = [a.lower() for a in p.get("activations") or []]
        usual = ACTIVATIONS[kind] * self.directions
        nonlinearity = "tanh"
        if kind == "rnn" and given == ["relu"] * self.directions:
            nonlinearity = "relu"
        elif given and given != usual:
            raise Refused("torch.nn.%s has the activations %s only" % (kind.upper(),
                                                                      ", ".join(usual)))
        w, r, b = (constants.get(n) if n else None for n in self.names)
        if w is None or r is None or (self.names[2] and b is None):
            raise Refused("recurrent weights must be constants")
        hidden = r.shape[2]
        extra = {"nonlinearity": nonlinearity} if kind == "rnn" else {}
        self.module = {"lstm": torch.nn.LSTM, "gru": torch.nn.GRU, "rnn": torch.nn.RNN}[kind](
            w.shape[2], hidden, bias=b is not None, bidirectional=both, dtype=w.dtype,
            device=w.device, **extra)
        self.module.requires_grad_(False)
        for d in range(self.directions):
            end = "_reverse" if d else ""
            self.held("weight_ih_l0" + end).copy_(self.to_torch(w[d]))
            self.held("weight_hh_l0" + end).copy_(self.to_torch(r[d]))
            if b is not None:
                half = b.shape[1] // 2
                self.held("bias_ih_l0" + end).copy_(self.to_torch(b[d][:half]))
                self.held("bias_hh_l0" + end).copy_(self.to_torch(b[d][half:]))

    def held(self, name):
        return getattr(self.module, name)

    def to_torch(self, rows):
        """Blocks of gates from the node's order into torch's."""
        blocks = dict(zip(self.gates, rows.chunk(len(self.gates))))
        return torch.cat([blocks[g] for g in ORDER[self.kind]])

    def from_torch(self, rows):
        blocks = dict(zip(ORDER[self.kind], rows.chunk(len(self.gates))))
        return torch.cat([blocks[g] for g in self.gates])

    def graph_parameters(self):
        """What the live module holds, under the graph's names and in its layout."""
        def both(*names):
            return torch.stack([torch.cat([self.from_torch(self.held(n + end)) for n in names])
                                for end in ["", "_reverse"][:self.directions]])
        found = {self.names[0]: both("weight_ih_l0"), self.names[1]: both("weight_hh_l0")}
        if self.names[2]:
            found[self.names[2]] = both("bias_ih_l0", "bias_hh_l0")
        return found

    def turned(self, x, lengths):
        """Every row of [T,B,...] backwards, up to its own length."""
        if lengths is None:
            return torch.flip(x, [0])
        t = torch.arange(x.shape[0], device=x.device).unsqueeze(1)
        at = torch.where(t < lengths, lengths - 1 - t, t)
        return torch.gather(x, 0, at.unsqueeze(2).expand_as(x))

    def forward(self, x, w, r, b=None, lengths=None, h=None, c=None, p=None):
        if self.batch_first:
            x, h, c = (None if t is None else t.transpose(0, 1).contiguous() for t in (x, h, c))
        steps, batch = x.shape[0], x.shape[1]
        lengths = None if lengths is None else lengths.long()
        if self.reverse:
            x = self.turned(x, lengths)
        state = None
        if h is not None or c is not None:
            zeros = x.new_zeros(self.directions, batch, self.module.hidden_size)
            h, c = (zeros if t is None else t for t in (h, c))
            state = (h, c) if self.kind == "lstm" else h
        if lengths is None:
            y, last = self.module(x, state)
        else:
            packed = torch.nn.utils.rnn.pack_padded_sequence(x, lengths.cpu(),
                                                             enforce_sorted=False)
            y, last = self.module(packed, state)
            y, _ = torch.nn.utils.rnn.pad_packed_sequence(y, total_length=steps)
        if self.reverse:
            y = self.turned(y, lengths)
        y = y.reshape(steps, batch, self.directions, -1)
        y = y.transpose(0, 1) if self.batch_first else y.transpose(1, 2)
        last = list(last) if self.kind == "lstm" else [last]
        return [y.contiguous()] + [t.transpose(0, 1).contiguous() if self.batch_first else t
                                   for t in last]


def recurrent(kind):
    @op(kind)
    def build(p, node, constants):
        return Recurrent(kind, p, node, constants)


for _kind in ("lstm", "gru", "rnn"):
    recurrent(_kind)
