"""Implementations of device vendors, a folder each. Only the folder of the current device is imported."""
