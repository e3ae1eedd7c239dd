"""Verifying one image against the lock."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date

from flbuild.errors import UsageError
from flbuild.finding import Finding
from flbuild.index.store import FileStore
from flbuild.lock.model import Lock, LockedBase, LockedImageBase, Output
from flbuild.progress import Progress
from flbuild.project import Project
from flbuild.recipe.load import load_recipe
from flbuild.recipe.model import Recipe
from flbuild.recipe.targets import expand_target
from flbuild.suggest import perhaps
from flbuild.verify.checks import run_checks
from flbuild.verify.context import Verification
from flbuild.verify.files import read_files
from flbuild.verify.run.container import DidNotStart, observe
from flbuild.verify.run.observed import Observed
from flbuild.verify.subject import Subject

_TITLE = "org.opencontainers.image.title"


@dataclass(frozen=True)
class Match:
    """Which recipe and target an image is of, and the output that records it, if any."""

    recipe: str
    target: str
    output: Output | None


@dataclass(frozen=True)
class Result:
    """What was found, and what was looked at."""

    match: Match
    findings: tuple[Finding, ...]
    read_layers: int
    all_layers: int
    read_bytes: int
    files: int
    distributions: int


def match_image(subject: Subject, lock: Lock, recipe: str | None = None, target: str | None = None) -> Match:
    """The recipe and target of an image: by its digest, by its content, by its title, or as given.

    Raises:
        UsageError: none of them tells.
    """
    diff_ids = tuple(layer.diff_id for layer in subject.layers)
    entries = [
        (name, output)
        for name, image in lock.images.items()
        for output in reversed(image.outputs)
        if recipe in (None, name) and target in (None, output.target)
    ]
    by_digest = (
        Match(name, output.target, output)
        for name, output in entries
        if output.manifest == subject.manifest_digest
    )
    by_content = (
        Match(name, output.target, output)
        for name, output in entries
        if output.diff_ids == diff_ids and output.config == _config_digest(subject)
    )
    found = next(by_digest, None) or next(by_content, None)
    if found is not None:
        return found
    words = subject.labels.get(_TITLE, "").split()
    name = recipe or next((word for word in words if word in lock.images), None)
    if name is None:
        raise UsageError(
            f"{subject.name} is no image that images.lock knows",
            cause="neither its digest nor its title names a recipe of this project",
            remedy="name the recipe with --recipe",
        )
    if name not in lock.images:
        raise UsageError(f"images.lock has no entry '{name}'{perhaps(name, lock.images)}")
    return Match(name, target or (words[-1] if len(words) > 2 else "release"), None)


def platform_of(text: str, lock: Lock, recipe: str | None = None) -> str | None:
    """The platform of an image that the lock knows by its reference or digest, to choose from an index."""
    if recipe in lock.images:
        return lock.images[recipe].platform
    for image in lock.images.values():
        if any(output.reference == text or text.endswith(f"@{output.manifest}") for output in image.outputs):
            return image.platform
    return None


def verify_image(
    subject: Subject,
    match: Match,
    project: Project,
    lock: Lock,
    store: FileStore,
    progress: Progress,
    *,
    fetch: bool = False,
    run: bool = False,
) -> Result:
    """Run every check.

    Layers of the locked base are not read where that would mean a download: their digests pin them, and
    the lock has their inventory. A Debian base in a local folder is read, so that its files count too.

    Args:
        fetch: get locked wheels that are not on this machine, to compare their content too.
        run: start a container of the image, too.

    Raises:
        HostError: a container was asked for, and no engine can run one.
    """
    recipe = load_recipe(project.recipe_path(match.recipe))
    locked = lock.images[match.recipe]
    expand_target(recipe, match.target)
    if fetch:
        store.fetch_all([*locked.packages, *locked.targets.get(match.target, ())])
    view = read_files(subject, _unread(locked.base, subject), progress)
    observed, not_started = _observe(subject, recipe, progress) if run else (None, None)
    verification = Verification(
        subject=subject,
        view=view,
        recipe=recipe,
        locked=locked,
        target=match.target,
        output=match.output,
        find_wheel=store.find,
        today=date.today(),
        observed=observed,
        not_started=not_started,
    )
    return Result(
        match=match,
        findings=tuple(run_checks(verification)),
        read_layers=len(view.read),
        all_layers=len(subject.layers),
        read_bytes=view.read_bytes,
        files=len(view.files),
        distributions=len(verification.installed),
    )


def _observe(subject: Subject, recipe: Recipe, progress: Progress) -> tuple[Observed | None, str | None]:
    """What a container showed, or else what it said when it did not start."""
    try:
        return observe(subject, recipe, progress), None
    except DidNotStart as error:
        return None, str(error)


def _unread(base: LockedBase | None, subject: Subject) -> list[str]:
    """Digests of layers that need not be read."""
    if isinstance(base, LockedImageBase):
        return [layer.digest for layer in base.layers] if base.inventory else []
    return [] if base is None or subject.is_local else [base.layer.digest]


def _config_digest(subject: Subject) -> str:
    return str(subject.content.get("config", {}).get("digest"))
