from __future__ import annotations

import io

import pytest
from rich.console import Console

from flbuild.cli.show import TerminalProgress


@pytest.fixture
def shown():
    """A display on a terminal of 200 columns, and what it shows."""
    stream = io.StringIO()
    return TerminalProgress(Console(file=stream, force_terminal=True, width=200, no_color=True)), stream


@pytest.mark.parametrize(
    "text", ["add [index.pypi] with a url", "a path [/srv/x] with brackets", "packages[0]"]
)
def test_brackets_in_messages_are_shown_as_they_are(shown, text):
    progress, stream = shown
    progress.info(text)
    progress.warn(text)
    with progress.task(text, 1) as task:
        task.note(text)
    assert stream.getvalue().count(text) >= 2
