"""Batch, layer, instance and group normalisation, local response normalisation, resizing."""
