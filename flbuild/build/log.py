"""The log of a build by another program, and what to show of it when the build fails."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from flbuild.build.failures import explain
from flbuild.errors import BuildError, FlbuildError
from flbuild.plan.model import Plan
from flbuild.progress import Task
from flbuild.settings.redact import redact

SHOWN_LINES = 25
SHOWN_CHARACTERS = 60
"""Of a line, beside the progress."""
_STEP = re.compile(r"(Step \d+/\d+ :|(\[\d+/\d+\] )?STEP \d+(/\d+)?:) ")
"""How the classic builder and buildah (which numbers stages where there are several) begin a step."""


class BuildLog:
    """The log of one build, kept; what was printed is remembered for an error's message.

    Args:
        words: for messages: `name` of the recipe, `tool` that builds, the command to `prune` its disk.
    """

    def __init__(self, path: Path, stream: IO[str], words: Mapping[str, str]) -> None:
        self.path = path
        self._stream = stream
        self._words = words
        self._lines: list[str] = []

    def write(self, text: str) -> None:
        """Add lines."""
        for line in redact(text).splitlines():
            self._stream.write(f"{line}\n")
            self._lines.append(line)
        self._stream.flush()

    @property
    def failing_step(self) -> list[str]:
        """The last step's lines: its name, and the end of what it printed."""
        starts = [number for number, line in enumerate(self._lines) if _is_step(line)]
        lines = [line for line in self._lines[starts[-1] if starts else 0 :] if line.strip()]
        vertex = next((line.partition(" ")[0] for line in reversed(lines) if " ERROR: " in line), None)
        if vertex is not None:
            # BuildKit's steps are printed at the same time; a number tells which line belongs to which.
            lines = [line for line in self._lines if line.startswith(f"{vertex} ")]
        if len(lines) > SHOWN_LINES:
            lines = [lines[0], "...", *lines[2 - SHOWN_LINES :]]
        return lines

    def failure(self) -> FlbuildError:
        """The error for a build that ended badly."""
        lines = self.failing_step
        known = explain(lines)
        what = "{tool} could not build {name}\n".format(**self._words) + "\n".join(
            f"  | {line}" for line in lines
        )
        if known is None:
            return BuildError(what, remedy="read the log, which has all steps", log=self.path)
        cause, remedy = (text.format(**self._words) for text in (known.cause, known.remedy))
        return known.error(what, cause=cause, remedy=remedy, log=self.path)


@contextmanager
def open_log(logs: Path, plan: Plan, builder: str, tool: str, prune: str) -> Iterator[BuildLog]:
    """The log of building a plan, written anew."""
    path = logs / f"image-{plan.name}-{plan.target}-{builder}.log"
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8") as stream:
        yield BuildLog(path, stream, {"name": plan.name, "tool": tool, "prune": prune})


def run_logged(command: Sequence[str], environ: Mapping[str, str], log: BuildLog, task: Task) -> None:
    """Run a program that builds; its output goes to the log.

    Raises:
        FlbuildError: by class, why it failed.
    """
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        env=dict(environ),
    ) as process:
        for line in process.stdout or ():
            log.write(line)
            task.note(line.strip()[:SHOWN_CHARACTERS])
    if process.returncode:
        raise log.failure()


def _is_step(line: str) -> bool:
    """Whether a line begins a step; buildah's last line names one too, in quotes."""
    return _STEP.match(line) is not None
