"""Which computation graphs a device allows."""
