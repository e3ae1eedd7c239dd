from __future__ import annotations

import os
import sys

import pytest

from flbuild.build.failures import KNOWN, explain
from flbuild.build.log import BuildLog, run_logged
from flbuild.errors import BuildError, HostError, RemoteGoneError, RemoteRefusedError, UnreachableError
from flbuild.progress import Silent


@pytest.fixture
def log(tmp_path):
    path = tmp_path / "image.log"
    with path.open("w") as stream:
        yield BuildLog(path, stream, {"name": "demo", "tool": "buildah", "prune": "buildah rmi --prune"})


@pytest.mark.parametrize(
    ("line", "error", "told"),
    [
        ("write /tmp/layer: no space left on device", HostError, "buildah rmi --prune"),
        ("toomanyrequests: You have reached your pull rate limit", RemoteRefusedError, "mirror"),
        ("exec /usr/bin/python3: exec format error", HostError, "--builder oci"),
        ("exec /bin/sh: Exec format error", HostError, "DOCKER_HOST"),
        ("manifest unknown: manifest unknown", RemoteGoneError, "flbuild lock demo --refresh-base"),
        ("Get https://quay.io/v2/: dial tcp: lookup quay.io: no such host", UnreachableError, "proxy"),
        ("Get https://quay.io/v2/: unauthorized: access to the resource", RemoteRefusedError, "docker login"),
        ("x509: certificate signed by unknown authority", UnreachableError, "certificates"),
        ("creating container: cgroups in hybrid mode not supported", HostError, "BUILDAH_RUNTIME=runc"),
    ],
)
def test_known_failures_have_their_class_cause_and_next_command(log, line, error, told):
    log.write("STEP 1/4: FROM x\nSTEP 2/4: RUN y")
    log.write(line)
    failure = log.failure()
    assert type(failure) is error
    assert f"buildah could not build demo\n  | STEP 2/4: RUN y\n  | {line}" in failure.what
    assert failure.cause
    assert told in failure.remedy
    assert failure.log == log.path


def test_what_is_not_known_is_a_build_error_with_the_failing_step(log):
    log.write("Step 1/3 : FROM x\nall well\nStep 2/3 : RUN false\nThe command returned a non-zero code: 1")
    failure = log.failure()
    assert isinstance(failure, BuildError)
    assert failure.exit_code == 7
    assert "all well" not in failure.what
    assert "RUN false" in failure.what
    assert "image.log" in str(failure)


def test_signs_of_earlier_steps_do_not_count(log):
    log.write("Step 1/2 : RUN try\nconnection refused\nStep 2/2 : RUN false\nreturned a non-zero code")
    assert isinstance(log.failure(), BuildError)


def test_the_last_line_of_buildah_hides_nothing_of_the_step_that_it_names(log):
    step = ["[2/6] STEP 3/3: RUN fill", "write: No space left on device"]
    last = 'Error: building at STEP "RUN fill": while running runtime: exit status 1'
    log.write(
        "\n".join(["[1/6] STEP 1/2: FROM x AS tools", "[1/6] STEP 2/2: COPY tools /tmp/tools", *step, last])
    )
    assert log.failing_step == [*step, last]
    assert isinstance(log.failure(), HostError)


def test_the_failing_step_of_buildkit_is_told_by_its_number(log):
    log.write("#5 [tools 2/3] COPY tools /tmp/tools\n#6 [a 1/2] RUN ok\n#5 0.1 working\n#6 DONE 0.3s")
    log.write("#5 0.4 boom\n#5 ERROR: process did not complete successfully: exit code: 1")
    assert log.failing_step == [
        "#5 [tools 2/3] COPY tools /tmp/tools",
        "#5 0.1 working",
        "#5 0.4 boom",
        "#5 ERROR: process did not complete successfully: exit code: 1",
    ]


def test_a_long_step_shows_its_name_and_its_end(log):
    log.write("STEP 1/1: RUN much")
    log.write("\n".join(f"line {number}" for number in range(100)))
    shown = log.failing_step
    assert shown[0] == "STEP 1/1: RUN much"
    assert shown[-1] == "line 99"
    assert len(shown) < 30


def test_a_url_with_a_password_is_hidden_in_log_and_message(log):
    log.write("STEP 1/1: FROM x\ntrying https://user:hunter2@mirror.example/v2/")
    assert "hunter2" not in log.failure().what
    assert "hunter2" not in log.path.read_text()


def test_a_program_that_fails_leaves_all_that_it_printed_in_the_log(log):
    code = "import sys; print('STEP 1/1: RUN x', flush=True); sys.exit('no space left on device')"
    with Silent().task("build") as task, pytest.raises(HostError, match="no space left on device"):
        run_logged([sys.executable, "-c", code], os.environ, log, task)
    assert "no space left" in log.path.read_text()


def test_no_sign_of_one_failure_is_shadowed_by_another():
    for known in KNOWN:
        for sign in known.signs:
            assert explain([sign]) is known
