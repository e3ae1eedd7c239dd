"""Verification: what was published is what was locked. One module per check."""
