"""Whether this machine can do what flbuild is asked for. One module per check."""
