from __future__ import annotations

import errno
import os
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from flbuild.cli import app as cli
from flbuild.cli.verbs import HELP, load
from flbuild.errors import LockStaleError


@pytest.fixture
def ended(monkeypatch, capsys):
    """`ended(error)`: exit code and stderr of a command that raises `error`."""

    def run(error):
        def command():
            raise error

        monkeypatch.setattr(cli, "app", command)
        with pytest.raises(SystemExit) as caught:
            cli.main()
        return caught.value.code, capsys.readouterr().err

    return run


def test_an_error_ends_with_the_exit_code_of_its_class(ended):
    code, text = ended(LockStaleError("the lock is stale", remedy="flbuild lock"))
    assert code == 3
    assert text == "error: the lock is stale\n  next:  flbuild lock\n"


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EACCES, errno.EROFS, errno.ENOTDIR, errno.EEXIST])
def test_what_a_file_system_refuses_is_an_error_of_this_machine(ended, number):
    code, text = ended(OSError(number, os.strerror(number), "/some/where"))
    assert code == 10
    assert text.startswith(f"error: /some/where: {os.strerror(number)}\n")
    assert "Traceback" not in text


def test_a_full_disk_says_what_to_do_about_it(ended):
    _, text = ended(OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)))
    assert "make room" in text
    assert "FLBUILD_CACHE_DIR" in text


@pytest.mark.parametrize("error", [ValueError("odd"), OSError("odd"), FileNotFoundError(2, "absent", "/x")])
def test_anything_else_is_a_bug_with_a_traceback(ended, error):
    code, text = ended(error)
    assert code == 1
    assert "Traceback" in text
    assert "a bug in flbuild" in text


def test_no_credential_in_a_url_survives_a_traceback_or_a_message(ended):
    for error in (
        ValueError("GET https://me:s3cret@x.example"),
        LockStaleError("https://me:s3cret@x.example"),
    ):
        _, text = ended(error)
        assert "x.example" in text
        assert "s3cret" not in text


@pytest.mark.parametrize("closed", ["stdout", "stderr"])
def test_a_closed_output_stream_is_no_error(tmp_path, closed):
    done = subprocess.run(
        [sys.executable, "-m", "flbuild", "recipe", "schema"],
        preexec_fn=lambda: os.close({"stdout": 1, "stderr": 2}[closed]),
        check=False,
        cwd=tmp_path,
    )
    assert done.returncode == 0


def test_a_result_that_cannot_be_written_is_an_error(tmp_path):
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "flbuild", "recipe", "schema"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
            cwd=tmp_path,
        )
    assert done.returncode == 10
    assert "Traceback" not in done.stderr


def test_the_list_of_verbs_is_that_of_the_verbs_themselves():
    assert {verb: load(verb).help for verb in HELP} == HELP


@pytest.mark.parametrize("arguments", [["--version"], ["--help"]], ids=" ".join)
def test_version_and_help_wait_for_no_library(arguments):
    program = (
        "import sys\nfrom flbuild.cli.app import app\n"
        f"app({arguments!r}, standalone_mode=False)\n"
        "slow = {'bs4', 'docker', 'jinja2', 'pydantic', 'requests', 'yaml'}\n"
        "print('loaded:', sorted(slow & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "loaded: []"


def test_a_recipe_is_checked_without_engine_or_templates():
    program = (
        "import sys\nfrom flbuild.cli.verbs import load\nload('recipe')\n"
        "print('loaded:', sorted({'docker', 'jinja2'} & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "loaded: []"


def test_a_misspelled_verb_is_told_the_right_one():
    result = CliRunner().invoke(cli.app, ["lokc"])
    assert result.exit_code == 2
    assert "'lock'" in result.output
