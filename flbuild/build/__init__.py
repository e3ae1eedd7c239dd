"""Builders: each makes an image from a plan."""
