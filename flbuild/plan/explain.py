"""A plan for people and for tools: what is in it, why, how large, and what is here already."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from rich.filesize import decimal

from flbuild.lock.model import LockedDebianBase
from flbuild.plan.model import Plan, PlannedLayer, PlannedWheel


@dataclass(frozen=True)
class Present:
    """What this machine has of a plan.

    Args:
        layer_size: compressed bytes of a layer that is built already, else None.
        has_file: whether a wheel's file is here.
    """

    layer_size: Callable[[PlannedLayer], int | None]
    has_file: Callable[[PlannedWheel], bool]


@dataclass(frozen=True)
class LayerReport:
    """A layer of a plan. Sizes are in bytes; `wheel_bytes` is None while the plugin is not built."""

    layer: PlannedLayer
    wheel_bytes: int | None
    to_fetch: int
    layer_size: int | None

    @property
    def state(self) -> str:
        """What building it will do."""
        if self.layer_size is not None:
            return "cached"
        return f"fetch {decimal(self.to_fetch)}, build" if self.to_fetch else "build"


@dataclass(frozen=True)
class Builder:
    """Who can build it, and what that promises."""

    name: str
    guarantees: tuple[str, ...]


def report_layers(plan: Plan, present: Present) -> tuple[LayerReport, ...]:
    """Every layer above the base, lowest first."""
    return tuple(_report(layer, present) for layer in plan.layers)


def _report(layer: PlannedLayer, present: Present) -> LayerReport:
    sizes = [wheel.size for wheel in layer.wheels]
    built = present.layer_size(layer)
    fetched = (wheel for wheel in layer.wheels if wheel.origin == "index" and not present.has_file(wheel))
    return LayerReport(
        layer,
        None if None in sizes else sum(size for size in sizes if size is not None),
        0 if built is not None else sum(wheel.size or 0 for wheel in fetched),
        built,
    )


def plan_json(plan: Plan, layers: Sequence[LayerReport], builders: Sequence[Builder]) -> dict[str, Any]:
    """The plan as JSON values."""
    return {
        "name": plan.name,
        "target": plan.target,
        "platform": f"{plan.os}/{plan.architecture}",
        "reference": f"{plan.repository}:{plan.tag}",
        "revision": plan.revision or None,
        "created": plan.config.created,
        "base": _base_json(plan),
        "layers": [_layer_json(report) for report in layers],
        "config": {
            "env": dict(plan.config.env),
            "labels": dict(plan.config.labels),
            "entrypoint": list(plan.config.entrypoint),
            "cmd": list(plan.config.cmd),
            "workdir": plan.config.workdir,
        },
        "builders": [{"name": item.name, "guarantees": list(item.guarantees)} for item in builders],
        "bytes_to_fetch": sum(report.to_fetch for report in layers),
        "notes": list(plan.notes),
        "unresolved": [{"name": item.name, "reason": item.reason} for item in plan.unresolved],
    }


def _base_json(plan: Plan) -> dict[str, Any] | None:
    if plan.base is None:
        return None
    if isinstance(plan.base, LockedDebianBase):
        return {
            "kind": "debian",
            "name": plan.base.suite,
            "packages": len(plan.base.packages),
            "layers": 1,
            "digest": plan.base.layer.digest,
            "size": plan.base.layer.size,
        }
    return {
        "kind": "image",
        "name": plan.base.reference,
        "layers": len(plan.base.layers),
        "digest": plan.base.digest,
        "size": sum(layer.size for layer in plan.base.layers),
    }


def _layer_json(report: LayerReport) -> dict[str, Any]:
    layer = report.layer
    return {
        "id": layer.id,
        "kind": layer.kind,
        "reason": layer.reason,
        "whiteouts": len(layer.whiteouts),
        "wheels": [
            {
                "name": wheel.name,
                "version": wheel.version,
                "filename": wheel.filename,
                "sha256": wheel.sha256,
                "size": wheel.size,
                "origin": wheel.index if wheel.origin == "index" else wheel.origin,
            }
            for wheel in layer.wheels
        ],
        "wheel_bytes": report.wheel_bytes,
        "bytes_to_fetch": report.to_fetch,
        "cached": report.layer_size is not None,
        "layer_size": report.layer_size,
    }


def plan_lines(plan: Plan, layers: Sequence[LayerReport], builders: Sequence[Builder]) -> list[str]:
    """The plan as text of a few dozen lines."""
    rows = [("layer", "content", "wheels", "in image", "state", "why"), _base_row(plan)]
    rows += [_row(report) for report in layers]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    revision = plan.revision or "unknown"
    lines = [
        f"{plan.repository}:{plan.tag}",
        f"{plan.os}/{plan.architecture}, created {plan.config.created}, revision {revision}",
        "",
        *("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows),
        "",
        f"to fetch: {decimal(sum(report.to_fetch for report in layers))}",
        *(f"builder {item.name}: {'; '.join(item.guarantees)}" for item in builders),
        *(f"note: {note}" for note in plan.notes),
    ]
    if plan.unresolved:
        lines.append("unresolved, so this plan cannot be built:")
        lines += [f"  {item.name}: {item.reason}" for item in plan.unresolved]
    return lines


def _base_row(plan: Plan) -> tuple[str, ...]:
    if plan.base is None:
        return ("base", "unresolved", "", "", "", "")
    if isinstance(plan.base, LockedDebianBase):
        content = f"{len(plan.base.packages)} packages"
        return ("base", content, "", decimal(plan.base.layer.size), "", f"Debian {plan.base.suite}")
    size = sum(layer.size for layer in plan.base.layers)
    where = "stays in its registry"
    return ("base", f"{len(plan.base.layers)} layers", "", decimal(size), where, plan.base.reference)


def _row(report: LayerReport) -> tuple[str, ...]:
    layer = report.layer
    count = len(layer.whiteouts or layer.wheels)
    thing = "whiteout" if layer.whiteouts else "wheel"
    return (
        layer.id,
        f"{count} {thing}{'' if count == 1 else 's'}",
        "" if layer.whiteouts or report.wheel_bytes is None else decimal(report.wheel_bytes),
        "" if report.layer_size is None else decimal(report.layer_size),
        report.state,
        layer.reason,
    )
