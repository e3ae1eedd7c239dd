"""Operators on torch_npu. Facts about its functions come from the op-plugin documentation."""
