"""What stands in a Dockerfile: plans of all targets, split into the stages that they share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from flbuild.build.oci.config import fresh_config
from flbuild.errors import LockStaleError
from flbuild.lock.model import LockedBase, LockedDebianBase, LockedFile, LockedSource, SourceFile
from flbuild.plan.model import Plan, PlannedLayer, PlannedWheel
from flbuild.wheel.backend import CLOSED
from flbuild.wheel.builder import SOURCE_EPOCH, source_environment, told_version

PIP = "pip"


@dataclass(frozen=True)
class Blueprint:
    """What is rendered.

    Args:
        plans: of every target, the plugin's wheel among them with its hash.
        sources: what is built into wheels by a stage of its own.
        tools: the locked build tools, pip among them.
        targets: those that get a stage; the last one is what a build without `--target` gives.
    """

    plans: tuple[Plan, ...]
    sources: tuple[LockedSource, ...]
    tools: tuple[LockedFile, ...]
    targets: tuple[str, ...]


@dataclass(frozen=True)
class SourceStage:
    """Builds the wheel of one source. Paths are inside the context; `env` is the build's environment."""

    stage: str
    source: LockedSource
    folder: str
    archive: str
    origin: str
    env: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Step:
    """One layer: a folder of the context, the stage that unpacks it, and those whose wheels it takes."""

    layer: PlannedLayer
    folder: str
    stage: str
    built: tuple[str, ...] = ()


@dataclass(frozen=True)
class TargetStage:
    """What one target has beyond the shared stages."""

    plan: Plan
    steps: tuple[Step, ...]


@dataclass(frozen=True)
class Stages:
    """Everything the templates show, in the order of the Dockerfile."""

    plan: Plan
    base: LockedBase
    base_env: tuple[str, ...]
    tools: tuple[LockedFile, ...]
    sources: tuple[SourceStage, ...]
    shared: tuple[Step, ...]
    targets: tuple[TargetStage, ...]

    @property
    def steps(self) -> tuple[Step, ...]:
        """Every step of every stage."""
        return (*self.shared, *(step for target in self.targets for step in target.steps))


EMPTY_TORCH_FOLDER = "tools/empty-torch"
MOUNTS = "/tmp"  # noqa: S108 - inside an image, in a build that runs alone
"""Where parts of the context are mounted, under their own names."""


def make_stages(blueprint: Blueprint) -> Stages:
    """Split plans into stages.

    Raises:
        LockStaleError: inputs are unresolved, or the lock pins no pip.
    """
    plans = blueprint.plans
    first = plans[0]
    base = refuse_unresolved(first)
    if all(tool.name != PIP for tool in blueprint.tools):
        raise LockStaleError("the lock pins no pip among its build tools", remedy="flbuild lock")
    sources = tuple(_source(source) for source in blueprint.sources)
    stage_of = {stage.source.sha256: stage.stage for stage in sources}
    shared = _shared(plans)
    return Stages(
        plan=first,
        base=base,
        base_env=_base_env(first),
        tools=blueprint.tools,
        sources=sources,
        shared=tuple(_step(layer, "shared", stage_of) for layer in shared),
        targets=tuple(
            TargetStage(plan, tuple(_step(layer, plan.target, stage_of) for layer in _own(plan, shared)))
            for plan in plans
            if plan.target in blueprint.targets
        ),
    )


def refuse_unresolved(plan: Plan) -> LockedBase:
    """The base of a plan that has everything.

    Raises:
        LockStaleError: inputs are unresolved; it names them all.
    """
    if plan.base is not None and not plan.unresolved:
        return plan.base
    lines = "\n".join(f"  {item.name}: {item.reason}" for item in plan.unresolved) or "  the base"
    raise LockStaleError(
        f"{plan.name} cannot be rendered, its lock entry holds unresolved inputs:\n{lines}",
        cause="it was locked with --allow-missing",
        remedy=f"make these places reachable (flbuild.toml), then flbuild lock {plan.name}",
    )


def _base_env(plan: Plan) -> tuple[str, ...]:
    """Variables that a base has only because the builder sets them: an image base brings its own."""
    if not isinstance(plan.base, LockedDebianBase):
        return ()
    return tuple(fresh_config(plan)["config"]["Env"])


def _shared(plans: Sequence[Plan]) -> tuple[PlannedLayer, ...]:
    """Layers that all targets have, without the plugin; of whiteouts, those that all targets have."""
    found = []
    for layer in plans[0].layers:
        if _has_plugin(layer):
            continue
        others = [{other.id: other for other in plan.layers} for plan in plans[1:]]
        if layer.kind == "remove":
            alike = set(layer.whiteouts).intersection(
                *(other[layer.id].whiteouts if layer.id in other else () for other in others)
            )
            if alike:
                found.append(replace(layer, whiteouts=tuple(sorted(alike))))
        elif all(layer in other.values() for other in others):
            found.append(layer)
    return tuple(found)


def _own(plan: Plan, shared: Sequence[PlannedLayer]) -> list[PlannedLayer]:
    """What a target adds to the shared layers, in the plan's order."""
    gone = {path for layer in shared for path in layer.whiteouts}
    rest = []
    for layer in plan.layers:
        if layer.kind == "remove":
            own = tuple(path for path in layer.whiteouts if path not in gone)
            if own:
                rest.append(replace(layer, whiteouts=own))
        elif layer not in shared:
            rest.append(layer)
    return rest


def _step(layer: PlannedLayer, owner: str, stage_of: dict[str, str]) -> Step:
    # The plugin's wheel is the same for all targets, and so is its folder.
    folder = f"layers/{layer.id}" if owner == "shared" or _has_plugin(layer) else f"layers/{owner}/{layer.id}"
    built = tuple(stage_of[wheel.sha256] for wheel in layer.wheels if wheel.sha256 in stage_of)
    stage = "-".join([*folder.split("/")[1:], "files"])
    return Step(layer, folder, stage, built)


def _has_plugin(layer: PlannedLayer) -> bool:
    return any(wheel.origin == "plugin" for wheel in layer.wheels)


def _source(source: LockedSource) -> SourceStage:
    folder = f"sources/{source.name}"
    pin = source.source
    if isinstance(pin, SourceFile):
        archive, origin = pin.filename, f"the sdist {pin.filename}"
    else:
        archive, origin = f"{source.name}-{pin.commit[:12]}.tar", f"commit {pin.commit} of {pin.git}"
    env = {
        **CLOSED,
        "SOURCE_DATE_EPOCH": str(SOURCE_EPOCH),
        **told_version(source.name, source.version),
        **source_environment(source.version, source.env, f"{MOUNTS}/{EMPTY_TORCH_FOLDER}"),
    }
    return SourceStage(f"{source.name}-wheel", source, folder, archive, origin, tuple(sorted(env.items())))


def requirements(wheels: Sequence[PlannedWheel | LockedFile]) -> str:
    """A requirements file that pins every wheel by hash, for `pip install --require-hashes`."""
    lines = [f"{wheel.name}=={wheel.version} --hash=sha256:{wheel.sha256}" for wheel in wheels]
    return "".join(f"{line}\n" for line in sorted(lines))
