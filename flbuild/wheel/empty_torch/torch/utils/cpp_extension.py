"""No compiler toolchain of any vendor."""

CUDA_HOME = None
ROCM_HOME = None
