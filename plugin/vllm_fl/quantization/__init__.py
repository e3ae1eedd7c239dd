"""Quantized layers and the checkpoints that hold them."""
