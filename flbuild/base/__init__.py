"""Bases: what an image starts from, locked with an inventory of what it carries."""
