"""The verbs of `flbuild`, each loaded when it is run: help and version wait for no library."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_group

HELP = {
    "recipe": "List, show and check recipes.",
    "lock": "Pin every input of the recipes in images.lock; what agrees already is left alone.",
    "wheel": "Build wheels from source (vllm-empty, plugin, or any source in the lock), and check wheels.",
    "plan": "Show base, layers and configuration of an image, without network and without building anything.",
    "render": "Write a Dockerfile and everything it needs, for the Docker engine or buildah.",
    "image": "Build an image. Without --output, --push or --load it becomes the layout oci:build/NAME.",
    "verify": "Prove that what was published is what was locked.",
    "diff": "Compare packages, files, config, layers and size of images, or what recipes or locks say.",
    "size": "Show the size of an image by layer, and fail if it is over its target's budget.",
    "document": "Write the page about an image from its recipe and lock, or check that it is current.",
    "doctor": "Check what flbuild needs of this machine; exit 10 only if images cannot be built here.",
}
"""What the list of verbs says of each; `flbuild.cli.VERB` holds it."""


class Verbs(TyperGroup):
    """Lists verbs without loading them."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.commands = {verb: TyperCommand(verb, help=text) for verb, text in HELP.items()}

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name, found, rest = super().resolve_command(ctx, args)
        return name, load(found.name) if found and found.name else None, rest


def load(verb: str) -> Any:
    """The command or the group of commands that runs `verb`."""
    module = import_module(f"flbuild.cli.{verb}")
    parent = typer.Typer()
    if hasattr(module, "app"):
        parent.add_typer(module.app, name=verb)
    else:
        parent.command(verb)(getattr(module, verb))
    return get_group(parent).commands[verb]
