"""The `flbuild` command: verbs, and one place where errors become exit codes."""

from __future__ import annotations

import os
import sys
import traceback
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from flbuild import __version__
from flbuild.cli.verbs import Verbs
from flbuild.errors import FlbuildError, host_error

app = typer.Typer(
    name="flbuild",
    cls=Verbs,
    help="Typed recipes to locked, reproducible and verifiable images for LLM inference.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


def _print_version(wanted: bool) -> None:
    if wanted:
        sys.stdout.write(f"flbuild {__version__}\n")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print it and exit.")
    ] = False,
) -> None:
    """Shared options."""


def main() -> None:
    """Run the command line; every known error ends with its class's exit code."""
    _open_streams()
    try:
        app()
    except FlbuildError as error:
        _fail(error)
    except KeyboardInterrupt:
        sys.stderr.write("interrupted; run the same command again, nothing is half-written\n")
        sys.exit(130)
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(1)
    except Exception as error:
        if isinstance(error, OSError) and (known := host_error(error)):
            _fail(known)
        sys.stderr.write(_redacted(traceback.format_exc()))
        sys.stderr.write("error: this is a bug in flbuild; please report the lines above\n")
        sys.exit(1)


def _fail(error: FlbuildError) -> NoReturn:
    # Messages hold no credentials; this is for those in words that another program or library wrote.
    sys.stderr.write(f"error: {_redacted(str(error))}\n")
    sys.exit(error.exit_code)


def _redacted(text: str) -> str:
    # Settings bring an HTTP client with them, which only a command that failed has to wait for.
    from flbuild.settings import redact

    return redact(text)


def _open_streams() -> None:
    """Give a process that was started with closed output streams a place to write to."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115 - for good
