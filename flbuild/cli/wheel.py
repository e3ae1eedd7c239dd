"""`flbuild wheel`: build the wheels that come from source, and check any wheel."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from flbuild.cli.context import Context, open_context, print_json, print_result
from flbuild.errors import UsageError, VerificationError
from flbuild.files import atomic_writer
from flbuild.index.client import IndexClient
from flbuild.index.git import GitStore
from flbuild.index.store import FileStore
from flbuild.index.wheels import check_wheel
from flbuild.lock.io import read_lock
from flbuild.lock.seal import require_sealed
from flbuild.recipe.load import load_recipe
from flbuild.recipe.model import Plugin
from flbuild.wheel.builder import WheelBuilder
from flbuild.wheel.locked import locked_source
from flbuild.wheel.model import BuiltWheel
from flbuild.wheel.plugin import build_plugin, plugin_facts


class _SourceNames(TyperGroup):
    """Takes a word that is no command as the name of a locked source: `flbuild wheel flag-gems`."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args and args[0] not in self.commands and not args[0].startswith("-"):
            args = ["source", *args]
        return super().resolve_command(ctx, args)


app = typer.Typer(
    cls=_SourceNames,
    help="Build wheels from source (vllm-empty, plugin, or any source in the lock), and check wheels.",
    no_args_is_help=True,
)

Output = Annotated[Path, typer.Option("--output", help="Folder for the wheel; made if it is missing.")]
Image = Annotated[str | None, typer.Option("--image", help="Whose source to build, if images differ.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]


@app.command("plugin")
def build_plugin_wheel(
    output: Output,
    commit: Annotated[
        str, typer.Option("--commit", help="Commit to build; changes since are left out.")
    ] = "HEAD",
    require_tag: Annotated[
        bool, typer.Option("--require-tag", help="Fail unless a version tag is reachable from the commit.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Build the plugin of this repository from a commit."""
    context = open_context()
    plugin = _plugin(context)
    root = context.project.root
    facts = plugin_facts(root, plugin, commit)
    lock = read_lock(context.project.lock_path)
    require_sealed(lock)
    wheel = build_plugin(
        root,
        plugin,
        facts,
        _builder(context),
        lock.build_tools,
        context.progress,
        require_tag=require_tag,
    )
    extra = {"revision": facts.revision, "archive_sha256": facts.archive_sha256, "epoch": facts.epoch}
    _deliver(wheel, output, extra, as_json=as_json)


@app.command("vllm-empty")
def build_vllm_wheel(output: Output, image: Image = None, as_json: Json = False) -> None:
    """Build vLLM without device code from its locked sdist."""
    _build_source("vllm-empty", output, image, as_json=as_json)


@app.command("source", hidden=True)
def build_source_wheel(
    name: Annotated[str, typer.Argument(help="For example flag-gems.")],
    output: Output,
    image: Image = None,
    as_json: Json = False,
) -> None:
    """Build any locked source; what `flbuild wheel NAME` runs."""
    _build_source(name, output, image, as_json=as_json)


def _build_source(name: str, output: Path, image: str | None, *, as_json: bool) -> None:
    """The wheel has the locked bytes, or this fails."""
    context = open_context()
    lock = read_lock(context.project.lock_path)
    source = locked_source(lock, name, image)
    path = _builder(context).build_locked(source, lock.build_tools)
    wheel = BuiltWheel(path, source.name, source.version, source.sha256, source.size)
    _deliver(wheel, output, {"source": source.source.model_dump(mode="json")}, as_json=as_json)


@app.command()
def check(file: Annotated[Path, typer.Argument(help="A wheel.")], as_json: Json = False) -> None:
    """Check a wheel: RECORD, METADATA, and native code that its name denies."""
    if not file.is_file():
        raise UsageError(f"{file} is no file")
    findings = check_wheel(file)
    if as_json:
        print_json({"file": str(file), "findings": [vars(finding) for finding in findings]})
    else:
        print_result(
            "\n".join(f"{item.severity}: {item.message}" for item in findings) or f"{file.name} is sound"
        )
    errors = [finding for finding in findings if finding.severity == "error"]
    if errors:
        raise VerificationError(f"{file.name}: {errors[0].message}", remedy=errors[0].remedy)


def _plugin(context: Context) -> Plugin:
    """The plugin that the recipes name.

    Raises:
        UsageError: they name different ones.
    """
    project = context.project
    plugins = {
        (plugin.path, plugin.name): plugin
        for plugin in (load_recipe(project.recipe_path(name)).plugin for name in project.recipe_names())
    }
    if len(plugins) != 1:
        names = ", ".join(sorted(f"{name} in {path}" for path, name in plugins))
        raise UsageError(f"the recipes name different plugins: {names}", remedy="make them agree")
    return next(iter(plugins.values()))


def _builder(context: Context) -> WheelBuilder:
    settings, progress = context.settings, context.progress
    store = FileStore(settings, IndexClient(settings, progress), progress)
    return WheelBuilder(settings.cache_dir, store, GitStore(settings), progress)


def _deliver(wheel: BuiltWheel, output: Path, extra: dict[str, Any], *, as_json: bool) -> None:
    """Copy the wheel out of the store, and print where it is."""
    target = output / wheel.filename
    with atomic_writer(target) as stream, wheel.path.open("rb") as source:
        shutil.copyfileobj(source, stream)
    if not as_json:
        print_result(str(target))
        return
    facts = {"name": wheel.name, "version": wheel.version, "filename": wheel.filename}
    print_json({"path": str(target), **facts, "sha256": wheel.sha256, "size": wheel.size, **extra})
