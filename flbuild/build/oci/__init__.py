"""The embedded assembler: locked wheels to OCI layers, config and manifest, without a daemon."""
