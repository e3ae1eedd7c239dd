"""Holds cpp_extension."""
