"""What every check of the machine gets: the settings, the recipes, and how to run a program."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from flbuild.finding import Finding
from flbuild.recipe.model import Recipe
from flbuild.settings import Settings

SECONDS = 10
"""How long a program or a host may take to answer."""


def run(*command: str) -> str | None:
    """What a program prints, or None if it is not there, fails or does not end."""
    program = shutil.which(command[0])
    if program is None:
        return None
    try:
        done = subprocess.run(
            [program, *command[1:]], capture_output=True, text=True, timeout=SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None


@dataclass(frozen=True)
class Machine:
    """What is checked.

    Args:
        recipes: of the project; empty outside of one.
        run: runs a program and gives what it prints, or None.
    """

    settings: Settings
    recipes: tuple[Recipe, ...] = ()
    run: Callable[..., str | None] = run


Check = Callable[[Machine], Iterator[Finding]]


def good(check: str, subject: str, message: str) -> Finding:
    """Something that is as it should be."""
    return Finding("info", check, subject, message)


def bad(check: str, subject: str, message: str, remedy: str) -> Finding:
    """Something without which the main job cannot work here."""
    return Finding("error", check, subject, message, remedy)


def lacking(check: str, subject: str, message: str, remedy: str) -> Finding:
    """Something that only some commands need."""
    return Finding("warning", check, subject, message, remedy)
