"""The descriptor of a device family."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple


class Memory(NamedTuple):
    """Bytes of one device: what is free and what there is."""

    free: int
    total: int


@dataclass(frozen=True)
class Device:
    """A device family as data. Adding one means adding one module with one of these.

    Classes and functions are dotted names, so that reading a descriptor imports neither torch nor vLLM.
    """

    name: str
    """The name ``VLLM_FL_PLATFORM`` accepts."""
    platform_class: str
    worker_class: str
    torch_type: str
    """Type of the ``torch.device`` tensors live on."""
    dispatch_key: str
    dist_backend: str
    indexed: bool
    """Whether a rank owns the device with its index; False when all ranks share one."""
    visibility_variable: str
    """Environment variable that lists the device ids a process may see."""
    probe: Callable[[], bool]
    """Whether this machine has such a device. Called in every process, so it opens no driver."""
    memory: Callable[[int], Memory]
    """Memory of the device with this index."""
    aliases: tuple[str, ...] = ()
    autodetect: bool = True
    """False for a device every machine has: it is used only when asked for by name."""
    communicator: str = "vllm_fl.distributed.communicator.CommunicatorFL"
    attention: str = ""
    mla_attention: str = ""
    ir_priority: tuple[str, ...] = ("fl", "native")
    """Providers of vLLM's IR operators, best first."""
    simple_compile_backend: str = "eager"
    graphs: bool = False
    """Whether computation graphs (torch.compile, device graphs) are allowed."""
    async_scheduling: bool = False
    pin_memory: bool = False
    v2_runner: bool = False
    """Whether vLLM's second model runner may run here at all."""
    block_multiple: int = 1
    """A user's ``--block-size`` must be a multiple of this many tokens."""
    default_kv_cache_bytes: int | None = None
    """Key-value cache of one worker without ``--kv-cache-memory-bytes``; None: measure free memory."""
    profile_limit_tokens: int | None = None
    """Batched tokens above which a start-up warning is due (compiler limits of the device)."""
    shutdown_seconds: int = 5
    """How long a stopped server waits for its workers, unless ``--shutdown-timeout`` says: with none at all
    vLLM kills them in the middle of their own orderly end."""
    quantizations: tuple[str, ...] = ()
    refusals: str = "vllm_fl.devices.refusals.EAGER_OUT_OF_TREE"
    """Features that would fail late or give wrong numbers here."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Environment defaults; a value the user set wins."""
    patches: tuple[str, ...] = ()
    """``compat`` patches every process needs."""
    worker_patches: tuple[str, ...] = ()
    """``compat`` patches of modules only workers import."""
    v2_patches: tuple[str, ...] = ()
    """``compat`` patches the second model runner needs, applied before its modules are imported."""

    @property
    def names(self) -> tuple[str, ...]:
        """Every spelling ``VLLM_FL_PLATFORM`` accepts for this device."""
        return (self.name, *self.aliases)

    def set_environment_defaults(self) -> None:
        """Export the variables of ``environment`` that the user left unset."""
        for name, value in self.environment.items():
            os.environ.setdefault(name, value)
