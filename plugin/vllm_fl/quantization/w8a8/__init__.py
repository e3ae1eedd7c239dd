"""8-bit weights and activations."""
