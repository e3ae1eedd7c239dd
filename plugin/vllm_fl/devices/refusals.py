"""Features that a device must refuse at start, because they would fail late or give wrong numbers.

What vLLM itself refuses on every out-of-tree platform (expert load balancing, sleep mode) is not repeated.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from vllm.config import VllmConfig


@dataclass(frozen=True)
class Refusal:
    """One refused feature: the option that asks for it, why it cannot work, and what to do instead."""

    option: str
    asked: Callable[[VllmConfig], bool]
    reason: str
    remedy: str

    def message(self, device: str) -> str:
        return f"{self.option} is not supported on device {device!r}: {self.reason}. {self.remedy}."


def _data_parallel_moe(config: VllmConfig) -> bool:
    model = config.model_config
    return config.parallel_config.data_parallel_size > 1 and model is not None and bool(model.is_moe)


def _foreign_attention_backend(config: VllmConfig) -> bool:
    attention = config.attention_config
    chosen = [attention.backend, *(attention.backend_per_kind or {}).values()]
    return any(backend is not None and backend.name != "CUSTOM" for backend in chosen)


EAGER_OUT_OF_TREE: tuple[Refusal, ...] = (
    Refusal(
        "--enable-lora",
        lambda config: config.lora_config is not None,
        "vLLM's torch kernels apply an adapter also to the requests without one in its batch",
        "Merge the adapter into the weights, or leave --enable-lora out",
    ),
    Refusal(
        "--kv-cache-dtype",
        lambda config: config.cache_config.cache_dtype not in ("auto", "bfloat16", "float16"),
        "attention keeps its keys and values unquantized",
        "Use --kv-cache-dtype auto",
    ),
    Refusal(
        "--attention-backend",
        _foreign_attention_backend,
        "the device brings its own attention, and vLLM's backends need kernels it does not have",
        "Leave --attention-backend out",
    ),
    Refusal(
        "--decode-context-parallel-size",
        lambda config: config.parallel_config.decode_context_parallel_size > 1,
        "attention does not merge partial results across ranks",
        "Use --tensor-parallel-size",
    ),
    Refusal(
        "--prefill-context-parallel-size",
        lambda config: config.parallel_config.prefill_context_parallel_size > 1,
        "attention does not merge partial results across ranks",
        "Use --tensor-parallel-size",
    ),
    Refusal(
        "--data-parallel-size with a mixture-of-experts model",
        _data_parallel_moe,
        "expert parallelism across data-parallel ranks is not verified here",
        "Use --tensor-parallel-size with --enable-expert-parallel, or several servers behind a balancer",
    ),
    Refusal(
        "--enable-dbo",
        lambda config: bool(config.parallel_config.enable_dbo),
        "overlapping two half batches needs CUDA streams",
        "Leave --enable-dbo out",
    ),
    Refusal(
        "--speculative-config",
        lambda config: config.speculative_config is not None,
        "drafting and rejection sampling are Triton kernels",
        "Leave --speculative-config out",
    ),
)


def _only(*options: str) -> tuple[Refusal, ...]:
    """Those of ``EAGER_OUT_OF_TREE``, with a reason that holds on a GPU."""
    reason = "it is not verified without vLLM's compiled operators"
    remedy = "Leave it out, or install the regular build of vLLM"
    return tuple(
        Refusal(refusal.option, refusal.asked, reason, remedy)
        for refusal in EAGER_OUT_OF_TREE
        if refusal.option in options
    )


WITHOUT_EXTENSION = _only(
    "--enable-lora",
    "--kv-cache-dtype",
    "--attention-backend",
    "--decode-context-parallel-size",
    "--prefill-context-parallel-size",
    "--data-parallel-size with a mixture-of-experts model",
    "--enable-dbo",
    "--speculative-config",
)
"""On an NVIDIA GPU with empty-device vLLM."""
