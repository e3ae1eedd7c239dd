"""Workers and model runners: thin subclasses of vLLM's."""
