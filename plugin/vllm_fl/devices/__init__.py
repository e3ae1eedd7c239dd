"""What vLLM needs to know about a device: one module, one descriptor per device family."""
