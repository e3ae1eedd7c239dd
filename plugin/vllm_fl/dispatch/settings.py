"""One answer from policy files and environment.

Priority: ``VLLM_FL_CONFIG``, which replaces everything else about policy; the environment; the policy shipped
for the device; what is built in. A value replaces the one below it; lists are not merged.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from vllm_fl import envs
from vllm_fl.devices.detect import select_device
from vllm_fl.dispatch.config import load_policy, platform_policy
from vllm_fl.dispatch.policy import Policy
from vllm_fl.envs import Environment

logger = logging.getLogger(__name__)

VENDORS: Mapping[str, str] = {"nvidia": "cuda", "ascend": "ascend"}
"""Device family to the name of the vendor whose implementations it runs."""

HOPPER_NATIVE = ("mm", "mm_out")
"""FlagGems functions that ``VLLM_FL_HOPPER_LONG_CONTEXT_OPT`` leaves to the device's own library."""

_POLICY_FIELDS = (
    "prefer",
    "strict",
    "per_op",
    "op_config",
    "allow_vendors",
    "deny_vendors",
    "flagos_whitelist",
    "flagos_blacklist",
    "flagos_blacklist_append",
    "oot_whitelist",
    "oot_blacklist",
)


@dataclass(frozen=True)
class Settings:
    """The environment with every gap filled that a policy file may fill."""

    environment: Environment
    device: str | None
    """Name of the device family; None when the plugin is not in use."""
    flaggems_version: str | None = None
    """The FlagGems release the lists in force were made for."""

    @property
    def vendor(self) -> str | None:
        return VENDORS.get(self.device or "")

    @property
    def flaggems(self) -> bool:
        """Whether FlagGems may run at all, be it for torch's operators or for the dispatched ones."""
        env = self.environment
        return env.prefer_enabled and env.use_flaggems and env.prefer in (None, "flagos")

    def flaggems_allows(self, *functions: str) -> bool:
        """Whether the lists let FlagGems functions of these names run."""
        if not self.flaggems:
            return False
        env = self.environment
        if env.flagos_whitelist is not None:
            return set(functions) <= set(env.flagos_whitelist)
        return set(functions).isdisjoint(env.flagos_blacklist or ())

    @property
    def policy(self) -> Policy:
        env = self.environment
        return Policy(
            prefer=env.prefer or "flagos",
            strict=bool(env.strict),
            per_op=tuple({**dict(env.per_op or ()), **dict(env.op_config or ())}.items()),
            allow_vendors=None if env.allow_vendors is None else _vendors(env.allow_vendors),
            deny_vendors=_vendors(env.deny_vendors or ()),
        )


def load_settings(environ: Mapping[str, str] | None = None) -> Settings:
    """Settings of this process for the device that the plugin would choose in it.

    Raises ValueError or FileNotFoundError for a bad variable or policy file.
    """
    environment = envs.read(environ)
    device = select_device(environment.platform)
    return merge(environment, device.name if device is not None else None)


def merge(environment: Environment, device: str | None) -> Settings:
    """Fill the gaps of ``environment`` for a device family. Raises ValueError for what cannot be had."""
    if environment.use_flaggems_attn:
        raise ValueError("VLLM_FL_USE_FLAGGEMS_ATTN=1: no FlagGems attention is built in; unset the variable")
    shipped = platform_policy(device)
    file = shipped if environment.config is None else load_policy(environment.config)
    if environment.config is not None:
        environment = _without_policy(environment)
        if shipped.flagos_blacklist and file.flagos_blacklist is None and file.flagos_whitelist is None:
            logger.warning(
                "%s has no FlagGems list, so the %d functions that fail on device %r are in use. Copy "
                "flagos_blacklist from the policy shipped with the plugin, or set USE_FLAGGEMS=0",
                environment.config,
                len(shipped.flagos_blacklist),
                device,
            )
    given = {
        "prefer": file.prefer,
        "strict": file.strict,
        "allow_vendors": file.allow_vendors,
        "deny_vendors": file.deny_vendors,
        "oot_blacklist": file.oot_blacklist,
    }
    values: dict[str, Any] = {k: v for k, v in given.items() if getattr(environment, k) is None}
    if environment.per_op is None and environment.op_config is None:
        values["per_op"] = file.op_backends
    listed = environment.flagos_whitelist is not None or environment.flagos_blacklist is not None
    if not listed:
        values["flagos_whitelist"], values["flagos_blacklist"] = file.flagos_whitelist, file.flagos_blacklist
    # The names in force may be another release's only if they come from the file.
    pinned = file.flaggems_version if not listed else None
    filled = replace(environment, **values, **file.io_dump)
    return Settings(replace(filled, flagos_blacklist=_blacklist(filled, device)), device, pinned)


def _without_policy(environment: Environment) -> Environment:
    blank = Environment()
    ignored = [name for name in _POLICY_FIELDS if getattr(environment, name) != getattr(blank, name)]
    if ignored:
        names = [variable for variable, name in envs.VARIABLES.items() if name in ignored]
        logger.warning("VLLM_FL_CONFIG is set, so these variables are ignored: %s", ", ".join(names))
    return replace(environment, **{name: getattr(blank, name) for name in ignored})


def _blacklist(environment: Environment, device: str | None) -> tuple[str, ...] | None:
    if environment.flagos_whitelist is not None:
        return None
    added = environment.flagos_blacklist_append
    if environment.hopper_long_context_opt and device == "nvidia" and _is_hopper():
        added = (*added, *HOPPER_NATIVE)
    if environment.flagos_blacklist is None and not added:
        return None
    return tuple(dict.fromkeys((*(environment.flagos_blacklist or ()), *added)))


def _is_hopper() -> bool:
    import torch

    return torch.cuda.is_available() and torch.cuda.get_device_capability()[0] == 9


def _vendors(names: tuple[str, ...]) -> frozenset[str]:
    return frozenset(VENDORS.get(name, name) for name in names)
