"""What can be compared, as sections: an image, a recipe, a lock."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

from flbuild.diff.compare import Side
from flbuild.lock.model import GitSource, Lock, LockedDebianBase, LockedFile, LockedImage, LockedSource
from flbuild.recipe.canonical import canonical_form
from flbuild.recipe.model import Recipe
from flbuild.verify.context import installed_in
from flbuild.verify.subject import Subject
from flbuild.verify.view import File, FileView


def image_side(subject: Subject, view: FileView) -> Side:
    """An image whose layers were all read: config, layers, size, packages and files."""
    settings = subject.settings
    runtime = dict(settings.get("config") or {})
    env = dict(text.partition("=")[::2] for text in runtime.pop("Env", None) or ())
    labels = runtime.pop("Labels", None) or {}
    config = {key: _text(value) for key, value in runtime.items()}
    config |= {key: _text(settings.get(key)) for key in ("architecture", "os", "created") if key in settings}
    return {
        "config": config,
        "environment": env,
        "labels": dict(labels),
        "layers": {f"{index + 1}": layer.digest for index, layer in enumerate(subject.layers)},
        "size": {"compressed bytes": str(sum(layer.size for layer in subject.layers))},
        "packages": {item.name: item.version for item in installed_in(view)},
        "files": {f"/{path}": _file(file) for path, file in view.files.items()},
    }


def recipe_side(recipe: Recipe) -> Side:
    """A recipe: what its hash is made of, so what changes nothing about an image is left out."""
    sections: dict[str, dict[str, str]] = {}
    for key, value in canonical_form(recipe).items():
        section, names = (key, value) if isinstance(value, dict) else ("recipe", {key: value})
        if key == "packages":
            section, names = "packages", {item["name"]: _without(item, "name") for item in value}
        sections.setdefault(section, {}).update({name: _text(item) for name, item in names.items()})
    return sections


def lock_side(lock: Lock) -> Side:
    """A lock: its inputs, entry by entry; recorded outputs are left out."""
    sections: dict[str, dict[str, str]] = {"build tools": dict(_pins(lock.build_tools))}
    for name, image in lock.images.items():
        sections |= {f"{name}: {section}": names for section, names in _entry(image).items()}
    return sections


def _entry(image: LockedImage) -> dict[str, dict[str, str]]:
    found = {
        "recipe": {"recipe": image.recipe, "platform": image.platform, "python": image.python},
        "base": _base(image),
        "sources": {source.name: _source(source) for source in image.sources},
        "packages": dict(_pins(image.packages)),
        "unresolved": {item.name: f"{item.version} ({item.source})" for item in image.unresolved},
    }
    return found | {f"target {name}": dict(_pins(files)) for name, files in image.targets.items()}


def _base(image: LockedImage) -> dict[str, str]:
    base = image.base
    if base is None:
        return {}
    if isinstance(base, LockedDebianBase):
        versions = {item.name: item.version for item in base.packages}
        return {"suite": base.suite, "layer": base.layer.diff_id, **versions}
    carried = {item.name: item.version for item in base.inventory}
    return {"reference": base.reference, "digest": f"{base.digest} ({base.digest_kind})", **carried}


def _pins(files: Iterable[LockedFile]) -> Iterator[tuple[str, str]]:
    for file in files:
        yield file.name, f"{file.version} {file.filename} sha256:{file.sha256}"


def _source(source: LockedSource) -> str:
    where = source.source
    origin = f"{where.git} {where.commit}" if isinstance(where, GitSource) else where.filename
    return f"{source.version} from {origin}, sha256:{source.sha256}"


def _file(file: File) -> str:
    what = f"-> {file.link}" if file.link is not None else f"sha256:{file.digest.hex()} {file.size} bytes"
    return f"{file.mode & 0o7777:04o} {what}"


def _without(item: dict[str, Any], key: str) -> dict[str, Any]:
    return {name: value for name, value in item.items() if name != key and value not in (None, {}, [])}


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, sort_keys=True)
