"""The lock: every input pinned, every output recorded."""
