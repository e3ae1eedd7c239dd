from __future__ import annotations

import pytest

from flbuild.doctor.checks import raise_if_unable
from flbuild.doctor.context import bad, good, lacking, run
from flbuild.errors import HostError


def test_only_errors_stop_the_main_job():
    raise_if_unable([good("a", "b", "c"), lacking("a", "b", "c", "d")])
    with pytest.raises(HostError, match="cannot build images here: git") as caught:
        raise_if_unable([bad("git", "git", "it is not installed", "apt-get install git")])
    assert caught.value.exit_code == 10
    assert "apt-get install git" in str(caught.value)


def test_a_program_is_run_and_one_that_fails_or_is_not_there_gives_nothing():
    assert run("echo", "word") == "word"
    assert run("false") is None
    assert run("no-such-program-here") is None
