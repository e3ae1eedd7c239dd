"""Rendering: a plan as a Dockerfile and a complete build context."""
