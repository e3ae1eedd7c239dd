"""`flbuild render`: a recipe as a Dockerfile and a complete build context."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import typer

from flbuild.cli.context import open_context, print_json, print_result
from flbuild.errors import LockStaleError
from flbuild.image import load_inputs
from flbuild.progress import Progress
from flbuild.render.context import wanted_files
from flbuild.render.make import Renderer
from flbuild.render.supply import Supplied
from flbuild.render.write import differences, refuse_foreign, write_rendering

SHOWN = 5


def render(
    name: Annotated[str, typer.Argument(help="Recipe to render.")],
    output: Annotated[Path, typer.Option("--output", metavar="DIR", help="Folder of the build context.")],
    target: Annotated[
        str | None, typer.Option("--target", help="Only this variant; every one by default.")
    ] = None,
    commit: Annotated[str, typer.Option("--commit", help="Commit of the plugin.")] = "HEAD",
    force: Annotated[
        bool, typer.Option("--force", help="Replace a folder that is not a former rendering.")
    ] = False,
    check: Annotated[
        bool, typer.Option("--check", help="Only compare with what is in DIR; exit 3 if it differs.")
    ] = False,
    offline: Annotated[bool, typer.Option("--offline", help="Use only what is on this machine.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Write a Dockerfile and everything it needs, for the Docker engine or buildah."""
    if not (check or force):
        refuse_foreign(output)
    context = open_context()
    inputs = load_inputs(context.project, name)
    renderer = Renderer(context.project, context.settings, context.progress, offline=offline)
    stages = renderer.stages(inputs.recipe, inputs.lock, target, commit)
    texts = renderer.texts(stages)
    if check:
        _check(name, output, differences(output, texts))
        supplied = Supplied()
    else:
        with TemporaryDirectory(prefix="flbuild-render-") as archives:
            supplied = renderer.supply(inputs.recipe.platform).get(wanted_files(stages), Path(archives))
            write_rendering(output, texts, supplied.paths, force=force)
        _warn(context.progress, name, output, supplied)
    dockerfile = output / "Dockerfile"
    if as_json:
        print_json(
            {
                "dockerfile": str(dockerfile),
                "targets": [stage.plan.target for stage in stages.targets],
                "missing": sorted(supplied.missing),
            }
        )
    else:
        print_result(str(dockerfile))


def _check(name: str, output: Path, found: list[str]) -> None:
    if found:
        raise LockStaleError(
            f"{output} is not what {name} renders to now:\n" + "\n".join(f"  {line}" for line in found),
            cause="recipe, lock, templates or the plugin's commit changed, or somebody edited it",
            remedy=f"flbuild render {name} --output {output}",
        )


def _warn(progress: Progress, name: str, output: Path, supplied: Supplied) -> None:
    """Say what the context lacks, once for everything that lacks for one reason."""
    reasons: dict[str, list[str]] = {}
    remedies: dict[str, str | None] = {}
    for path, error in supplied.missing.items():
        reasons.setdefault(error.what, []).append(path)
        remedies[error.what] = error.remedy
    for reason, paths in reasons.items():
        more = f" and {len(paths) - SHOWN} more" if len(paths) > SHOWN else ""
        progress.warn(
            f"the context cannot be built yet, it lacks {', '.join(paths[:SHOWN])}{more}: {reason}\n"
            f"  next:  {remedies[reason] or 'make it reachable'}, then\n"
            f"         flbuild render {name} --output {output}"
        )
