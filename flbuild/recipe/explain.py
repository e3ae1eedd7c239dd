"""Pydantic's validation errors in the words of a recipe's author."""

from __future__ import annotations

from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel, Tag, ValidationError

from flbuild.recipe.document import Document, Key, Problem
from flbuild.recipe.model import BASE_KINDS, Recipe
from flbuild.settings.redact import redact
from flbuild.suggest import closest, perhaps

_KINDS = {"string_type": "text", "dict_type": "a mapping", "model_type": "a mapping", "tuple_type": "a list"}
_KINDS |= {"bool_type": "true or false", "int_type": "a whole number", "mapping_type": "a mapping"}

_SENTENCES = {
    "greater_than": "is too small; it must be greater than {gt}",
    "string_too_short": "is too short; it needs {min_length} characters",
    "too_short": "is empty; it needs at least {min_length}",
}


def explain(error: ValidationError, document: Document) -> list[Problem]:
    """The mistakes behind `error`, in the order of the document's lines."""
    items = [(*_resolve(item["loc"]), dict(item)) for item in error.errors(include_url=False)]
    misspelled = {
        (*key[:-1], meant)
        for key, model, item in items
        if item["type"] == "extra_forbidden" and (meant := closest(str(key[-1]), _keys(model)))
    }
    problems = [
        # A wrong value is repeated, and a URL in it may carry credentials.
        Problem(key, redact(_text(key, model, item, document)))
        for key, model, item in items
        # A misspelled key is one mistake, not an unknown key and a missing one.
        if not (item["type"] == "missing" and key in misspelled)
    ]
    return sorted(problems, key=lambda problem: document.line(problem.key))


def _text(key: Key, model: type[BaseModel] | None, item: dict[str, Any], document: Document) -> str:
    kind, value = item["type"], item["input"]
    if kind == "extra_forbidden":
        return f"unknown key{perhaps(str(key[-1]), _keys(model))}"
    if kind == "missing":
        return f"the key is missing{_described(model, key)}"
    if kind == "literal_error":
        allowed = [text.strip("'") for text in item["ctx"]["expected"].replace(" or ", ", ").split(", ")]
        if len(allowed) == 1:
            return f"'{value}' is not {allowed[0]}, the only value there is"
        return f"'{value}' is none of {', '.join(allowed)}{_nearest(str(value), allowed)}"
    if kind == "base_kind":
        return f"{item['msg']}{_misspelled_kind(value)}"
    if kind == "value_error":
        return str(item["ctx"]["error"])
    if kind == "string_pattern_mismatch":
        return f"'{value}' is not valid{_described(model, key)} (it must match {item['ctx']['pattern']})"
    if kind in _SENTENCES:
        return _SENTENCES[kind].format(**item["ctx"])
    if kind in _KINDS:
        return _wrong_type(_KINDS[kind], value, document.source.get(key))
    return str(item["msg"])


def _wrong_type(expected: str, value: Any, source: str | None) -> str:
    if value is None:
        empty = {"a mapping": "; {} is an empty one", "a list": "; [] is an empty one"}.get(expected, "")
        return f"is empty; {expected} is expected{empty}"
    if expected == "text" and source is not None:
        # 3.10 is a number to YAML and `no` is false: only quotes keep what was written.
        return f'{source} is {_name(value)} to YAML; write "{source}" in quotes'
    return f"is {_name(value)}; {expected} is expected"


def _name(value: Any) -> str:
    names: dict[type, str] = {bool: "true or false", int: "a number", float: "a number", str: "text"}
    names |= {list: "a list", dict: "a mapping"}
    return names.get(type(value), "a date")


def _misspelled_kind(value: Any) -> str:
    keys = [str(key) for key in value] if isinstance(value, dict) else []
    if "image" in keys or "debian" in keys:
        return ""
    return next(
        (f"; perhaps '{key}' is meant to be '{near}'" for key in keys if (near := closest(key, BASE_KINDS))),
        "",
    )


def _nearest(value: str, allowed: list[str]) -> str:
    match = closest(value, allowed)
    return f"; perhaps you meant '{match}'" if match else ""


def _keys(model: type[BaseModel] | None) -> list[str]:
    return [field.alias or name for name, field in model.model_fields.items()] if model else []


def _described(model: type[BaseModel] | None, key: Key) -> str:
    if model is None:
        return ""
    for name, field in model.model_fields.items():
        if (field.alias or name) == key[-1] and field.description:
            return f"; it is {field.description}"
    return ""


def _resolve(loc: tuple[int | str, ...]) -> tuple[Key, type[BaseModel] | None]:
    """Pydantic's location as a path in the document, and the model that owns its last part.

    The location of a tagged union holds the tag, which is no key of the document.
    """
    key: list[int | str] = []
    model: type[BaseModel] | None = None
    annotation: Any = Recipe
    for part in loc:
        members = _members(annotation)
        tagged = [member for member in members if len(members) > 1 and _tag(member) == part]
        if tagged:
            annotation = tagged[0]
            continue
        if part == "[key]":
            continue
        key.append(part)
        model, annotation = _step(members, part)
    return tuple(key), model


def _members(annotation: Any) -> list[Any]:
    """The alternatives of a union; the annotation itself when it is none."""
    if get_origin(annotation) in (Union, UnionType):
        return [member for member in get_args(annotation) if member is not type(None)]
    return [annotation]


def _tag(member: Any) -> str | None:
    return next((meta.tag for meta in get_args(member)[1:] if isinstance(meta, Tag)), None)


def _step(members: list[Any], part: int | str) -> tuple[type[BaseModel] | None, Any]:
    for member in members:
        plain = get_args(member)[0] if get_origin(member) is Annotated else member
        # On Python 3.10 tuple[int, ...] counts as a type, so its origin is asked first.
        if get_origin(plain) is None and isinstance(plain, type) and issubclass(plain, BaseModel):
            for name, field in plain.model_fields.items():
                if (field.alias or name) == part:
                    return plain, field.annotation
            return plain, None
        arguments = get_args(plain)
        if get_origin(plain) is tuple and isinstance(part, int):
            return None, arguments[0]
        if get_origin(plain) is dict:
            return None, arguments[1]
    return None, None
