"""Policy files: YAML with the same powers as the environment, checked key by key."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Any

from vllm_fl.dispatch.policy import check_tokens
from vllm_fl.envs import BACKENDS, OOT_OPS

PerOp = tuple[tuple[str, tuple[str, ...]], ...]


@dataclass(frozen=True)
class PolicyFile:
    """What a policy file says. None where it says nothing."""

    prefer: str | None = None
    strict: bool | None = None
    allow_vendors: tuple[str, ...] | None = None
    deny_vendors: tuple[str, ...] | None = None
    op_backends: PerOp | None = None
    """Pairs of an operator and the tokens to try for it, in order."""
    flagos_whitelist: tuple[str, ...] | None = None
    flagos_blacklist: tuple[str, ...] | None = None
    """Names of FlagGems functions."""
    flaggems_version: str | None = None
    """The FlagGems release the lists were made for."""
    oot_blacklist: tuple[str, ...] | None = None
    io_dump: Mapping[str, Any] = field(default_factory=dict)
    """Values by the name of the environment field they replace."""


def platform_policy(device: str | None) -> PolicyFile:
    """The policy shipped for a device family; an empty one where none is shipped."""
    source = files(__name__) / f"{device}.yaml"
    return parse_policy(source.read_text(encoding="utf-8"), str(source)) if source.is_file() else PolicyFile()


def load_policy(path: str) -> PolicyFile:
    """Read a policy file. Raises FileNotFoundError, or ValueError naming the file and the key."""
    with open(path, encoding="utf-8") as file:
        return parse_policy(file.read(), path)


def parse_policy(text: str, origin: str) -> PolicyFile:
    """Parse YAML; ``origin`` names it in errors."""
    from vllm_fl.dispatch.config.strict_yaml import load

    try:
        content = load(text)
    except ValueError as error:
        raise ValueError(f"{origin} is not a policy file: {error}") from None
    if content is None:
        return PolicyFile()
    try:
        values = _checked(content, _KEYS, "the file")
        if {"flagos_whitelist", "flagos_blacklist"} <= values.keys():
            raise ValueError("flagos_whitelist and flagos_blacklist exclude each other; keep one of them")
    except ValueError as error:
        raise ValueError(f"{origin}: {error}") from None
    return PolicyFile(**values)


Check = Callable[[str, Any], Any]
"""Takes a key and its value; raises ValueError for a value of the wrong form."""


def _checked(content: Any, keys: Mapping[str, Check], where: str) -> dict[str, Any]:
    if not isinstance(content, dict):
        raise ValueError(f"{where} must be a mapping with keys among {', '.join(keys)}")
    values = {}
    for key, value in content.items():
        if key not in keys:
            near = difflib.get_close_matches(str(key), keys, n=1)
            hint = f"; perhaps you meant {near[0]!r}" if near else f"; accepted: {', '.join(keys)}"
            raise ValueError(f"unknown key {key!r}{hint}")
        values[key] = keys[key](key, value)
    return values


def _typed(kind: type, noun: str) -> Check:
    def check(key: str, value: Any) -> Any:
        if type(value) is not kind:
            raise ValueError(f"{key} must be {noun}, not {value!r}")
        return value

    return check


_text = _typed(str, "a text")
_flag = _typed(bool, "true or false, without quotes")


def _count(key: str, value: Any) -> int:
    if type(value) is not int or value < 0:
        raise ValueError(f"{key} must be a whole number of zero or more, not {value!r}")
    return value


def _prefer(key: str, value: Any) -> str:
    if value not in BACKENDS:
        raise ValueError(f"{key} must be one of {', '.join(BACKENDS)}, not {value!r}")
    return str(value)


def _names(key: str, value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(item, str) and item for item in value):
        raise ValueError(f"{key} must be a list of names, not {value!r}")
    return tuple(dict.fromkeys(value))


def _layers(key: str, value: Any) -> tuple[str, ...]:
    names = _names(key, value)
    unknown = [name for name in names if name not in OOT_OPS]
    if unknown:
        raise ValueError(f"{key} names unknown layers {', '.join(unknown)}; accepted: {', '.join(OOT_OPS)}")
    return names


def _functions(key: str, value: Any) -> tuple[str, ...]:
    """Names, or groups of them with the reason: ``{source: text, functions: [names]}``."""
    if not isinstance(value, list):
        raise ValueError(f"{key} must be a list, not {value!r}")
    names: list[str] = []
    for item in value:
        if isinstance(item, dict):
            group = _checked(item, {"source": _text, "functions": _names}, f"a group of {key}")
            if group.keys() != {"source", "functions"}:
                raise ValueError(f"a group of {key} needs both 'source' and 'functions': {item!r}")
            names.extend(group["functions"])
        else:
            names.extend(_names(key, [item]))
    return tuple(dict.fromkeys(names))


def _op_backends(key: str, value: Any) -> PerOp:
    if not isinstance(value, dict):
        raise ValueError(f"{key} must map operators to backends, not {value!r}")
    orders = []
    for op, tokens in value.items():
        if isinstance(tokens, str):
            tokens = [token.strip() for token in tokens.split("|")]
        if not isinstance(op, str) or not tokens:
            raise ValueError(f"{key}: {op!r} needs at least one backend")
        names = _names(f"{key}.{op}", tokens)
        check_tokens(f"{key}.{op}", names)
        orders.append((op, names))
    return tuple(orders)


def _steps(key: str, value: Any) -> tuple[int, int]:
    first, dash, last = str(value).partition("-")
    if not (dash and first.strip().isdecimal() and last.strip().isdecimal() and int(first) <= int(last)):
        raise ValueError(f"{key} must be of the form 'first-last', not {value!r}")
    return int(first), int(last)


def _ranks(key: str, value: Any) -> tuple[int, ...] | None:
    if value == "all":
        return None
    ranks = [value] if type(value) is int else value
    if not isinstance(ranks, list) or not all(type(rank) is int and rank >= 0 for rank in ranks):
        raise ValueError(f"{key} must be 'all', a rank or a list of ranks, not {value!r}")
    return tuple(ranks)


def _layer_specs(key: str, value: Any) -> tuple[str, ...]:
    """Layer numbers may be written as numbers."""
    return _names(key, [str(item) if type(item) is int else item for item in value] if value else value)


_IO_DUMP: Mapping[str, Check] = {
    "dir": _text,
    "ops": _names,
    "modules": _names,
    "layers": _layer_specs,
    "max_calls": _count,
    "step_range": _steps,
    "rank": _ranks,
    "with_print": _flag,
    "with_torch_funcs": _flag,
    "with_metas": _flag,
    "with_values": _flag,
    "bg_workers": _count,
}


def _io_dump(key: str, value: Any) -> dict[str, Any]:
    values = _checked(value, _IO_DUMP, key)
    return {"io_dump" if name == "dir" else f"io_dump_{name}": item for name, item in values.items()}


_KEYS: Mapping[str, Check] = {
    "prefer": _prefer,
    "strict": _flag,
    "allow_vendors": _names,
    "deny_vendors": _names,
    "op_backends": _op_backends,
    "flagos_whitelist": _functions,
    "flagos_blacklist": _functions,
    "flaggems_version": _text,
    "oot_blacklist": _layers,
    "io_dump": _io_dump,
}
