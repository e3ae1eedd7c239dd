"""Attention in plain torch: paged attention and multi-head latent attention."""
