from __future__ import annotations

import json

import pytest
from pydantic import SecretStr

from flbuild.build.buildah import BuildahBuilder
from flbuild.build.model import CacheOptions
from flbuild.errors import BuildError, HostError
from flbuild.progress import Silent
from flbuild.registry.credentials import Credential
from flbuild.settings.model import RegistrySettings

FAILS = 'printf "%s\\n" "$@" > "$SEEN"; env > "$SEEN.env"; cat "$(dirname "$SEEN")/auth" 2>/dev/null; exit 1'
LOGIN = Credential("carol", SecretStr("open sesame"))


class Logins:
    def __init__(self, found=None):
        self.found = found

    def find(self, host):
        return self.found


@pytest.fixture
def build(make_settings, based_plan, context, program, tmp_path):
    """`build(script, login=..., cache=..., KEY=VALUE)`: what a fake buildah was asked; its build fails."""

    def run(script=FAILS, login=None, cache=None, **registry):
        settings = make_settings().model_copy(
            update={"registries": {"quay.io": RegistrySettings(**registry)}}
        )
        environ = {"PATH": program("buildah", script), "SEEN": str(tmp_path / "seen")}
        builder = BuildahBuilder(settings, Logins(login), cache or CacheOptions(), environ)
        builder.check()
        with pytest.raises((BuildError, HostError)) as caught:
            builder.build(based_plan(), context, Silent())
        seen = tmp_path / "seen"
        return seen.read_text().splitlines() if seen.exists() else [], caught.value

    return run


def test_everything_is_dated_alike_and_steps_have_no_network(build):
    asked, _ = build()
    text = " ".join(asked)
    assert text.startswith(
        "build --layers --timestamp 315532800 --network none --http-proxy=false --identity-label=false"
    )
    assert "--platform linux/arm64 --target release" in text
    assert "--build-arg BASE_IMAGE=quay.io/team/base:v1" in text
    assert "--tls-verify" not in text


def test_a_mirror_on_loopback_is_asked_without_tls(build):
    asked, _ = build(mirror="127.0.0.1:5000")
    assert "--tls-verify=false" in asked
    assert "BASE_IMAGE=127.0.0.1:5000/team/base:v1" in asked


def test_a_ca_bundle_is_given_as_a_folder_of_certificates(build, tmp_path):
    (tmp_path / "lan.pem").write_text("CERTIFICATE")
    script = 'while [ "$1" != --cert-dir ]; do shift; done; cat "$2/ca.crt" > "$SEEN"; exit 1'
    asked, _ = build(script, ca_bundle=tmp_path / "lan.pem")
    assert asked == ["CERTIFICATE"]


def test_a_credential_goes_by_a_file_that_only_this_user_reads_and_by_nothing_else(build, tmp_path):
    script = """\
printf '%s\\n' "$@" > "$SEEN.args"; env > "$SEEN.env"
while [ "$1" != --authfile ]; do shift; done
stat -c %a "$2" > "$SEEN"; cat "$2" >> "$SEEN"
exit 1"""
    asked, failure = build(script, LOGIN)
    assert asked[0] == "600"
    auths = json.loads("\n".join(asked[1:]))["auths"]
    assert auths == {"quay.io": {"auth": "Y2Fyb2w6b3BlbiBzZXNhbWU="}}
    for place in (tmp_path / "seen.args", tmp_path / "seen.env", failure.log):
        assert "sesame" not in place.read_text()
        assert "Y2Fyb2w6" not in place.read_text()


def test_cached_steps_are_taken_and_given(build):
    asked, _ = build(cache=CacheOptions(("r.example/a", "r.example/b"), "r.example/c"))
    text = " ".join(asked)
    assert "--cache-from r.example/a --cache-from r.example/b --cache-to r.example/c" in text


def test_a_failure_shows_the_step_and_the_log(build):
    script = 'echo "STEP 1/2: FROM x"; echo "STEP 2/2: RUN make"; echo "no space left on device"; exit 125'
    _, failure = build(script)
    assert isinstance(failure, HostError)
    assert "| STEP 2/2: RUN make" in failure.what
    assert "FROM x" not in failure.what
    assert failure.log.read_text().startswith("STEP 1/2: FROM x\n")


def test_without_the_program_it_is_told_before_anything_is_done(make_settings, tmp_path):
    builder = BuildahBuilder(make_settings(), Logins(), CacheOptions(), {"PATH": str(tmp_path)})
    with pytest.raises(HostError, match="buildah is not installed") as caught:
        builder.check()
    assert caught.value.exit_code == 10
