"""Writing a rendering: all of it or nothing, and never over files that are somebody's own."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from flbuild.errors import HostError, UsageError
from flbuild.files import link_or_copy, sha256_bytes, unnamed_folder

MARK = ".flbuild-render.json"
"""Names a folder as a rendering, and what was written to it."""


def write_rendering(
    folder: Path, texts: Mapping[str, bytes], files: Mapping[str, Path], *, force: bool = False
) -> None:
    """Replace `folder` by a rendering.

    Args:
        texts: the content of files, by path.
        files: pinned files on this machine, by path; they are linked where one file system holds both.
        force: replace a folder that is not a former rendering too.

    Raises:
        UsageError: `folder` holds files that are not a former rendering's.
        HostError: it cannot be written.
    """
    folder = folder.absolute()
    if not force:
        refuse_foreign(folder)
    try:
        with unnamed_folder(folder.parent, folder.name) as workplace:
            complete = workplace / "rendering"
            for path, content in {**texts, MARK: _mark(texts)}.items():
                target = complete / path
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(content)
            for path, source in files.items():
                target = complete / path
                target.parent.mkdir(parents=True, exist_ok=True)
                link_or_copy(source, target)
            if folder.exists():
                folder.rename(workplace / "old")
            complete.rename(folder)
    except OSError as error:
        raise HostError(
            f"{folder} could not be written", cause=str(error), remedy="name another folder with --output"
        ) from error


def differences(folder: Path, texts: Mapping[str, bytes]) -> list[str]:
    """What differs between a rendering in `folder` and one made now: paths, with what is wrong with each."""
    found = [
        f"{path}: {'differs' if (folder / path).is_file() else 'is missing'}"
        for path, content in texts.items()
        if not (folder / path).is_file() or (folder / path).read_bytes() != content
    ]
    return found + [f"{path}: is no longer part of it" for path in sorted(_marked(folder) - set(texts))]


def refuse_foreign(folder: Path) -> None:
    """Nothing if a rendering may be written to `folder`: it is new, empty or a former rendering.

    Raises:
        UsageError: it is not.
    """
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"{folder} is a file", remedy="name a folder with --output")
    if folder.exists() and any(folder.iterdir()) and not (folder / MARK).is_file():
        raise UsageError(
            f"{folder} holds files that are no former rendering",
            remedy="name a new or an empty folder, or replace what is there with --force",
        )


def _mark(texts: Mapping[str, bytes]) -> bytes:
    content = {"files": {path: sha256_bytes(texts[path]) for path in sorted(texts)}}
    return (json.dumps(content, indent=2) + "\n").encode()


def _marked(folder: Path) -> set[str]:
    try:
        return set(json.loads((folder / MARK).read_bytes())["files"])
    except (OSError, ValueError, KeyError, TypeError):
        return set()
