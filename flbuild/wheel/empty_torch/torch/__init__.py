"""Stands in for torch while vLLM is built for the empty device, and only then.

vLLM's setup script imports torch to learn which device to compile for. With VLLM_TARGET_DEVICE=empty the
answer is always "none" and nothing is compiled, so the few names below are all it asks for. Any other
question means that the build is not the one this stands in for, and fails loudly.
"""

from torch import version

__all__ = ["version"]


def __getattr__(name):
    raise AttributeError(
        f"the build of vLLM for the empty device asked for torch.{name}, which needs the real torch; "
        "this version of vLLM cannot be built this way"
    )
