"""LSTM, GRU and plain recurrence, through torch.nn's own modules."""
