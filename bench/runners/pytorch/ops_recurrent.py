"""LSTM, GRU and plain recurrence, through torch.nn's own modules.

The graph's weights are [directions, gates*hidden, inputs] in the order of gates that the node
names; torch's modules hold [gates*hidden, inputs] per direction in their own order (LSTM i f g o,
GRU r z n). Reordering moves rows and computes nothing. What the modules cannot do (peepholes,
clipping, other activations, coupled gates) is refused.
"""
