"""The `flbuild` command: verbs, and one place where errors become exit codes."""

from __future__ import annotations

import sys
import traceback
from typing import Annotated

import typer

from flbuild import __version__
from flbuild.cli import doctor, image, lock, plan, recipe, render, verify, wheel
from flbuild.errors import FlbuildError

app = typer.Typer(
    name="flbuild",
    help="Typed recipes to locked, reproducible and verifiable images for LLM inference.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
app.add_typer(recipe.app, name="recipe")
app.command("lock")(lock.lock)
app.add_typer(wheel.app, name="wheel")
app.command("plan")(plan.plan)
app.command("render")(render.render)
app.command("image")(image.image)
app.add_typer(verify.app, name="verify")
app.command("doctor")(doctor.doctor)


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
    try:
        app()
    except FlbuildError as error:
        sys.stderr.write(f"error: {error}\n")
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        sys.stderr.write("interrupted; run the same command again, nothing is half-written\n")
        sys.exit(130)
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(1)
    except Exception:
        traceback.print_exc()
        sys.stderr.write("error: this is a bug in flbuild; please report the lines above\n")
        sys.exit(1)
