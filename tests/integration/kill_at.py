"""Runs flbuild and kills it just before its Nth change of the file system: `kill_at.py N ARGUMENT...`

With N = 0 it runs to its end and writes the number of changes as the last line of stderr.
"""

from __future__ import annotations

import os
import signal
import sys

CHANGES = frozenset({"os.rename", "os.link", "os.mkdir", "os.remove", "os.rmdir", "os.truncate", "os.utime"})
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT


def main(number: int) -> None:
    """Run flbuild with the arguments that are left."""
    count = 0

    def watch(event: str, arguments: tuple[object, ...]) -> None:
        nonlocal count
        if event in CHANGES or (event == "open" and isinstance(arguments[2], int) and arguments[2] & WRITING):
            count += 1
            if count == number:
                os.kill(os.getpid(), signal.SIGKILL)

    from flbuild.cli.app import main as run

    sys.addaudithook(watch)
    try:
        run()
    finally:
        if number == 0:
            sys.stderr.write(f"\n{count}\n")


if __name__ == "__main__":
    main(int(sys.argv.pop(1)))
