"""Reproducible wheels from source: the plugin, empty-device vLLM, git sources."""
