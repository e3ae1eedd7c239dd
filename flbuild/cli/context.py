"""What every command shares: the project, the settings, where output goes."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flbuild.cli.show import make_progress
from flbuild.progress import Progress
from flbuild.project import Project, find_project
from flbuild.settings import Settings, load_settings


@dataclass(frozen=True)
class Context:
    """The project found from the current folder, its settings, and the progress display."""

    project: Project
    settings: Settings
    progress: Progress


def open_context() -> Context:
    """Find the project upward from the current folder and load its settings."""
    project = find_project(Path.cwd())
    return Context(project, load_settings(project.root, os.environ), make_progress())


def print_result(text: str) -> None:
    """Write the result of a command to stdout, the only thing that goes there."""
    sys.stdout.write(text if text.endswith("\n") else text + "\n")
    # Now, where a reader that went away or a full disk is still an error of the command.
    sys.stdout.flush()


def print_json(value: Any) -> None:
    """Write one JSON document to stdout."""
    print_result(json.dumps(value, indent=2, sort_keys=True))
