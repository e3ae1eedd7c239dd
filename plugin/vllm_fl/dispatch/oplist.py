"""The file that lists the FlagGems operators in use.

FlagGems writes one line per torch operator there. Dispatched operators are added through FlagGems' own file
handler: a second descriptor would overwrite what the first one writes.
"""

from __future__ import annotations

import logging
import os
import stat
import tempfile
from pathlib import Path

from vllm_fl.dispatch.types import OpImpl

logger = logging.getLogger(__name__)


def record_use(impl: OpImpl) -> None:
    """Add a line for a FlagGems implementation that is now in use. Never raises.

    FlagGems opens the file on the first rank only, so the others find no handler.
    """
    if impl.kind != "flagos":
        return
    line = f"vllm_fl.dispatch.ops.{impl.op_name}: {impl.impl_id}\n"
    for handler in logging.getLogger("flag_gems").handlers:
        if isinstance(handler, logging.FileHandler) and getattr(handler, "_flaggems_owned", False):
            try:
                _write(handler, line)
            except (OSError, ValueError) as error:
                logger.warning("The use of %s is not recorded: %s", impl.op_name, error)


def _write(handler: logging.FileHandler, line: str) -> None:
    # Not as a log record: the handler drops every second record of one source line.
    handler.acquire()
    try:
        if handler.stream is None:
            handler.stream = handler._open()
        handler.stream.write(line)
        handler.flush()
    finally:
        handler.release()


def oplist_path(asked: str | None) -> Path | None:
    """Where to record: ``asked``, else a file of this process in a folder only this user can enter.

    None, after a warning, when the place cannot be written.
    """
    try:
        path = Path(asked) if asked is not None else _private_folder() / f"oplist-{os.getpid()}.txt"
        with path.open("a"):
            return path
    except OSError as error:
        logger.warning("FLAGGEMS_ENABLE_OPLIST_PATH: operators in use are not recorded: %s", error)
        return None


def _private_folder() -> Path:
    """Others can guess names in the temporary folder, and put links there."""
    folder = Path(tempfile.gettempdir()) / f"vllm_fl-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    status = folder.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid() or status.st_mode & 0o077:
        raise PermissionError(f"{folder} is not a folder of this user alone; remove it")
    return folder
