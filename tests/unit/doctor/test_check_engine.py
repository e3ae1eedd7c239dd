from __future__ import annotations

from flbuild.doctor.check_engine import buildah, buildx, engine


def test_no_engine_is_no_reason_to_fail(machine, monkeypatch, tmp_path):
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none.sock")
    (finding,) = engine(machine())
    assert finding.severity == "warning"
    assert "DOCKER_HOST" in finding.remedy


def test_an_engine_is_asked_where_docker_host_says(machine, monkeypatch, fake_index):
    monkeypatch.setenv("DOCKER_HOST", f"tcp://127.0.0.1:{fake_index.port}")
    list(engine(machine()))
    assert fake_index.asked("/version") > 0


def test_builders_of_dockerfiles_are_shown(machine):
    ready = machine(run={"docker": "github.com/docker/buildx v0.30", "buildah": "buildah version 1.28.2"})
    assert [next(check(ready)).severity for check in (buildx, buildah)] == ["info", "info"]
    assert [next(check(machine())).severity for check in (buildx, buildah)] == ["warning", "warning"]
