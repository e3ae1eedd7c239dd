"""Every environment variable the plugin reads, in one table.

:class:`Environment` is the table: a field per variable, with the parser that says what it accepts. Reading
keeps nothing, so tests and child processes see what is set at that moment. An empty value counts as unset.
Names of operators and vendors are checked where the operators are known, not here.
"""

from __future__ import annotations

import difflib
import json
import logging
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

logger = logging.getLogger(__name__)

BACKENDS = ("flagos", "vendor", "reference")
"""The kinds of implementation an operator may have."""

OOT_OPS = (
    "silu_and_mul",
    "gelu_and_mul",
    "rms_norm",
    "rotary_embedding",
    "fused_moe",
    "unquantized_fused_moe_method",
)
"""The layers of vLLM that the plugin replaces."""

Parser = Callable[[str, str], Any]
"""Takes a variable's name and its non-empty value; raises ValueError for a value it does not accept."""

PerOp = tuple[tuple[str, tuple[str, ...]], ...]
"""Pairs of an operator and the tokens to try for it, in order."""


def _text(name: str, value: str) -> str:
    return value


def _flag(name: str, value: str) -> bool:
    flags = {"1": True, "true": True, "0": False, "false": False}
    if value.lower() not in flags:
        raise ValueError(f"{name}={value!r} is not a switch; accepted: true, false, 1, 0")
    return flags[value.lower()]


def _count(name: str, value: str) -> int:
    if not value.isdecimal():
        raise ValueError(f"{name}={value!r} is not a whole number of zero or more")
    return int(value)


def _choice(*accepted: str) -> Parser:
    def parse(name: str, value: str) -> str:
        if value.lower() not in accepted:
            raise ValueError(f"{name}={value!r} is not known; accepted: {', '.join(accepted)}")
        return value.lower()

    return parse


def _names(name: str, value: str) -> tuple[str, ...]:
    """Comma-separated names, order kept, duplicates and empty items dropped."""
    return tuple(dict.fromkeys(item.strip() for item in value.split(",") if item.strip()))


def _oot_names(name: str, value: str) -> tuple[str, ...]:
    names = _names(name, value)
    unknown = [item for item in names if item not in OOT_OPS]
    if unknown:
        raise ValueError(f"{name} names unknown layers {', '.join(unknown)}; accepted: {', '.join(OOT_OPS)}")
    return names


def _per_op(name: str, value: str) -> PerOp:
    orders: dict[str, tuple[str, ...]] = {}
    for segment in filter(None, (part.strip() for part in value.split(";"))):
        op, equals, order = segment.partition("=")
        tokens = tuple(token.strip() for token in order.split("|"))
        if not equals or not op.strip() or not all(tokens):
            raise ValueError(f"{name}: {segment!r} is not of the form op=first|second")
        orders[op.strip()] = tokens
    return tuple(orders.items())


def _existing_file(name: str, value: str) -> str:
    if not os.path.isfile(value):
        raise FileNotFoundError(f"{name}={value!r}: there is no such file; correct the path or unset {name}")
    return value


def _op_config(name: str, value: str) -> PerOp:
    if not os.path.isfile(value):
        raise ValueError(f"{name}={value!r}: file not found; correct the path or unset {name}")
    with open(value, encoding="utf-8") as file:
        try:
            chosen = json.load(file)
        except ValueError as error:
            raise ValueError(f"{name}={value!r} is not JSON: {error}") from None
    if not isinstance(chosen, dict) or not all(isinstance(backend, str) for backend in chosen.values()):
        raise ValueError(f'{name}={value!r} must hold one object of the form {{"operator": "backend"}}')
    for op, backend in chosen.items():
        if backend not in BACKENDS:
            accepted = ", ".join(BACKENDS)
            raise ValueError(
                f"{name}={value!r}: Unsupported backend {backend!r} for {op!r}; accepted: {accepted}"
            )
    return tuple((op, (backend,)) for op, backend in chosen.items())


def _log_level(name: str, value: str) -> str:
    levels = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")
    if value.upper() in levels:
        return value.upper()
    logger.warning("%s=%r is not one of %s; using INFO", name, value, ", ".join(levels))
    return "INFO"


def _folder(name: str, value: str) -> str | None:
    """A folder; a bare switch means ``io_dump`` in the current one, or none."""
    switch = {"1": "io_dump", "true": "io_dump", "0": None, "false": None}
    return switch.get(value.lower(), value)


def _steps(name: str, value: str) -> tuple[int, int] | None:
    """``a-b``, both included."""
    first, dash, last = (part.strip() for part in value.partition("-"))
    if dash and first.isdecimal() and last.isdecimal() and int(first) <= int(last):
        return int(first), int(last)
    logger.warning("%s=%r is ignored: it is not of the form first-last", name, value)
    return None


def _ranks(name: str, value: str) -> tuple[int, ...] | None:
    """``all`` (None) or comma-separated ranks."""
    if value.lower() == "all":
        return None
    ranks = _names(name, value)
    if ranks and all(rank.isdecimal() for rank in ranks):
        return tuple(int(rank) for rank in ranks)
    logger.warning("%s=%r is ignored: it is neither 'all' nor a list of ranks", name, value)
    return None


def _variable(name: str, parse: Parser, default: Any = None) -> Any:
    return field(default=default, metadata={"name": name, "parse": parse})


@dataclass(frozen=True)
class Environment:
    """Parsed variables. None means unset where a configuration file may still decide."""

    platform: str | None = _variable("VLLM_FL_PLATFORM", _text)
    """Device family to use instead of the one found."""
    allow_version_mismatch: bool = _variable("VLLM_FL_ALLOW_VERSION_MISMATCH", _flag, False)
    visible_devices: str | None = _variable("VLLM_FL_VISIBLE_DEVICES", _text)
    """Placeholder of devices that have no visibility variable of their own."""

    prefer_enabled: bool = _variable("VLLM_FL_PREFER_ENABLED", _flag, True)
    """Master switch of FlagGems and of the replaced layers."""
    use_flaggems: bool = _variable("USE_FLAGGEMS", _flag, True)
    prefer: str | None = _variable("VLLM_FL_PREFER", _choice(*BACKENDS))
    strict: bool | None = _variable("VLLM_FL_STRICT", _flag)
    per_op: tuple[tuple[str, tuple[str, ...]], ...] | None = _variable("VLLM_FL_PER_OP", _per_op)
    allow_vendors: tuple[str, ...] | None = _variable("VLLM_FL_ALLOW_VENDORS", _names)
    deny_vendors: tuple[str, ...] | None = _variable("VLLM_FL_DENY_VENDORS", _names)
    config: str | None = _variable("VLLM_FL_CONFIG", _existing_file)
    """YAML policy file that replaces every other source."""
    op_config: tuple[tuple[str, tuple[str, ...]], ...] | None = _variable("VLLM_FL_OP_CONFIG", _op_config)
    """Contents of the JSON file; beats ``per_op``."""

    flagos_whitelist: tuple[str, ...] | None = _variable("VLLM_FL_FLAGOS_WHITELIST", _names)
    flagos_blacklist: tuple[str, ...] | None = _variable("VLLM_FL_FLAGOS_BLACKLIST", _names)
    flagos_blacklist_append: tuple[str, ...] = _variable("VLLM_FL_FLAGOS_BLACKLIST_APPEND", _names, ())
    hopper_long_context_opt: bool = _variable("VLLM_FL_HOPPER_LONG_CONTEXT_OPT", _flag, False)
    """Keep matrix products native on NVIDIA Hopper."""
    use_flaggems_attn: bool = _variable("VLLM_FL_USE_FLAGGEMS_ATTN", _flag, False)

    oot_enabled: bool = _variable("VLLM_FL_OOT_ENABLED", _flag, True)
    oot_whitelist: tuple[str, ...] | None = _variable("VLLM_FL_OOT_WHITELIST", _oot_names)
    oot_blacklist: tuple[str, ...] | None = _variable("VLLM_FL_OOT_BLACKLIST", _oot_names)

    plugin_modules: tuple[str, ...] = _variable("VLLM_FL_PLUGIN_MODULES", _names, ())
    dispatch_debug: bool = _variable("VLLM_FL_DISPATCH_DEBUG", _flag, False)
    log_level: str = _variable("VLLM_FL_LOG_LEVEL", _log_level, "INFO")
    int8_mode: str = _variable("VLLM_FL_INT8_MODE", _choice("auto", "w8a8", "w8a16"), "auto")

    io_dump: str | None = _variable("VLLM_FL_IO_DUMP", _folder)
    """Folder to write to; unset: nothing is recorded."""
    io_dump_ops: tuple[str, ...] = _variable("VLLM_FL_IO_DUMP_OPS", _names, ())
    io_dump_modules: tuple[str, ...] = _variable("VLLM_FL_IO_DUMP_MODULES", _names, ())
    io_dump_layers: tuple[str, ...] = _variable("VLLM_FL_IO_DUMP_LAYERS", _names, ())
    io_dump_max_calls: int = _variable("VLLM_FL_IO_DUMP_MAX_CALLS", _count, 0)
    """Calls recorded per operator; 0: all."""
    io_dump_step_range: tuple[int, int] | None = _variable("VLLM_FL_IO_DUMP_STEP_RANGE", _steps)
    io_dump_rank: tuple[int, ...] | None = _variable("VLLM_FL_IO_DUMP_RANK", _ranks)
    io_dump_with_print: bool = _variable("VLLM_FL_IO_DUMP_WITH_PRINT", _flag, False)
    io_dump_with_torch_funcs: bool = _variable("VLLM_FL_IO_DUMP_WITH_TORCH_FUNCS", _flag, True)
    io_dump_with_metas: bool = _variable("VLLM_FL_IO_DUMP_WITH_METAS", _flag, True)
    io_dump_with_values: bool = _variable("VLLM_FL_IO_DUMP_WITH_VALUES", _flag, False)
    io_dump_bg_workers: int = _variable("VLLM_FL_IO_DUMP_BG_WORKERS", _count, 8)

    oplist_path: str | None = _variable("FLAGGEMS_ENABLE_OPLIST_PATH", _text)
    """File that lists the operators in use; unset: one of this user and process."""
    gems_vendor: str | None = _variable("GEMS_VENDOR", _text)
    """FlagGems' own: the vendor it takes instead of looking for a device."""
    flagcx_path: str | None = _variable("FLAGCX_PATH", _text)
    device_control_env_var: str | None = _variable("FLAGOS_DEVICE_CONTROL_ENV_VAR", _text)

    def __post_init__(self) -> None:
        if self.flagos_whitelist is not None and self.flagos_blacklist is not None:
            raise ValueError(
                "VLLM_FL_FLAGOS_WHITELIST and VLLM_FL_FLAGOS_BLACKLIST exclude each other; unset one of them"
            )

    def oot_layer_enabled(self, layer: str) -> bool:
        """Whether the plugin's ``layer`` (of ``OOT_OPS``) replaces vLLM's; a whitelist beats a blacklist."""
        if not (self.prefer_enabled and self.oot_enabled):
            return False
        if self.oot_whitelist is not None:
            return layer in self.oot_whitelist
        return layer not in (self.oot_blacklist or ())


VARIABLES: Mapping[str, str] = {f.metadata["name"]: f.name for f in fields(Environment)}
"""Variable name to the field that holds it."""


def read(environ: Mapping[str, str] | None = None) -> Environment:
    """Parse ``environ`` (the process's own by default).

    Raises ValueError, or FileNotFoundError for an absent ``VLLM_FL_CONFIG``, naming the variable.
    """
    source = os.environ if environ is None else environ
    values = {}
    for entry in fields(Environment):
        name = entry.metadata["name"]
        value = source.get(name, "").strip()
        if value:
            values[entry.name] = entry.metadata["parse"](name, value)
    return Environment(**values)


def misspelled(environ: Mapping[str, str] | None = None) -> dict[str, str | None]:
    """Set variables of the plugin's prefix that it does not know, each with the nearest known name."""
    source = os.environ if environ is None else environ
    unknown = [name for name in source if name.startswith("VLLM_FL_") and name not in VARIABLES]
    nearest = {name: difflib.get_close_matches(name, VARIABLES, n=1) for name in sorted(unknown)}
    return {name: next(iter(matches), None) for name, matches in nearest.items()}
