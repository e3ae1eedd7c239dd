"""Routing and unquantized experts of mixture-of-experts layers, in plain torch."""
