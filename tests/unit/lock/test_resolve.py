from __future__ import annotations

import pytest
from pydantic import SecretStr

from flbuild.errors import HostError, RecipeError, UnreachableError
from flbuild.files import sha256_bytes
from flbuild.index.tags import Environment
from flbuild.lock.resolve import Question, Resolver, pins, uv_platform
from flbuild.lock.stub import Fixed
from flbuild.settings import IndexSettings

IMAGE = Environment("3.11", "linux/arm64", "2.35")


@pytest.fixture
def publish(tmp_path, fake_index, make_wheel):
    """`publish(name, version, ...)`: put a wheel on the index `pypi`."""

    def put(name, version, *, index="pypi", **options):
        return fake_index.add(make_wheel(tmp_path / index, name, version, **options), index)

    return put


def versions(answer):
    return {item.name: item.version for item in answer}


def test_the_whole_closure_is_found_for_another_machine(publish, fake_index, warm_settings):
    publish("app", "1.0", requires=["lib>=1", "x86-only; platform_machine == 'x86_64'"])
    publish("lib", "1.5", tag="cp311-cp311-manylinux_2_28_aarch64")
    publish("lib", "1.6", tag="cp311-cp311-manylinux_2_28_x86_64")
    publish("x86-only", "1.0")
    answer = Resolver(warm_settings(pypi=fake_index.url())).resolve(Question(IMAGE, ("app",)))
    assert versions(answer) == {"app": "1.0", "lib": "1.5"}
    assert answer[1].wheels[0].sha256
    assert answer[1].wheels[0].size


def test_b8_a_dependency_of_one_machine_only_is_seen_there(publish, fake_index, warm_settings):
    publish("xgrammar", "1.0", requires=["triton; platform_machine == 'x86_64'"])
    publish("triton", "3.0")
    resolver = Resolver(warm_settings(pypi=fake_index.url()))
    x86 = Question(Environment("3.11", "linux/amd64", "2.35"), ("xgrammar",))
    assert versions(resolver.resolve(x86)) == {"xgrammar": "1.0", "triton": "3.0"}
    assert versions(resolver.resolve(Question(IMAGE, ("xgrammar",)))) == {"xgrammar": "1.0"}
    assert resolver.requirers(x86)["triton"] == ("xgrammar",)


def test_fixed_distributions_bring_their_requirements_and_are_left_out(publish, fake_index, warm_settings):
    publish("lib", "1.0")
    metadata = b"Metadata-Version: 2.1\nName: torch\nVersion: 2.10.0+cpu\nRequires-Dist: lib\n"
    fixed = (Fixed("torch", "2.10.0+cpu", metadata),)
    answer = Resolver(warm_settings(pypi=fake_index.url())).resolve(Question(IMAGE, (), fixed))
    assert versions(answer) == {"lib": "1.0"}


def test_b67_a_fixed_distribution_is_never_looked_up_on_the_public_index(publish, fake_index, warm_settings):
    publish("app", "1.0", requires=["torch>=2"])
    publish("torch", "9.0")
    fixed = (Fixed.without_requirements("torch", "2.10.0+cpu"),)
    answer = Resolver(warm_settings(pypi=fake_index.url())).resolve(Question(IMAGE, ("app",), fixed))
    assert versions(answer) == {"app": "1.0"}
    assert not fake_index.asked("/torch")


def test_what_the_base_provides_is_not_replaced_but_reported(publish, fake_index, warm_settings):
    publish("app", "1.0", requires=["torch>=3"])
    publish("torch", "3.0")
    fixed = (Fixed.without_requirements("torch", "2.10.0+cpu"),)
    with pytest.raises(RecipeError, match=r"(?s)app.*torch>=3"):
        Resolver(warm_settings(pypi=fake_index.url())).resolve(Question(IMAGE, ("app",), fixed))


def test_a_declared_conflict_is_overridden(publish, fake_index, warm_settings):
    publish("opencv", "1.0", requires=["numpy>=2"])
    publish("numpy", "1.26.4")
    publish("numpy", "2.0")
    resolver = Resolver(warm_settings(pypi=fake_index.url()))
    requirements = ("opencv", "numpy==1.26.4")
    with pytest.raises(RecipeError, match="overrides"):
        resolver.resolve(Question(IMAGE, requirements))
    answer = resolver.resolve(Question(IMAGE, requirements, overrides=("numpy==1.26.4",)))
    assert versions(answer)["numpy"] == "1.26.4"


def test_a_dependency_is_dropped_by_an_override_that_never_holds(publish, fake_index, warm_settings):
    publish("xgrammar", "1.0", requires=["triton"])
    overrides = ("triton; sys_platform == 'never'",)
    question = Question(IMAGE, ("xgrammar",), overrides=overrides)
    assert versions(Resolver(warm_settings(pypi=fake_index.url())).resolve(question)) == {"xgrammar": "1.0"}


def test_a_version_is_kept_while_nothing_speaks_against_it(publish, fake_index, warm_settings):
    publish("lib", "1.0")
    publish("lib", "2.0")
    resolver = Resolver(warm_settings(pypi=fake_index.url()))
    assert versions(resolver.resolve(Question(IMAGE, ("lib",)))) == {"lib": "2.0"}
    keep = {"lib": "1.0", "gone": "1.0"}
    assert versions(resolver.resolve(Question(IMAGE, ("lib",), preferences=keep))) == {"lib": "1.0"}
    assert versions(resolver.resolve(Question(IMAGE, ("lib>1",), preferences=keep))) == {"lib": "2.0"}


def test_an_answer_constrains_a_further_question(publish, fake_index, warm_settings):
    publish("lib", "1.0")
    publish("lib", "2.0")
    resolver = Resolver(warm_settings(pypi=fake_index.url()))
    first = resolver.resolve(Question(IMAGE, ("lib<2",)))
    assert pins(first) == ("lib==1.0",)
    assert versions(resolver.resolve(Question(IMAGE, ("lib",), constraints=pins(first)))) == {"lib": "1.0"}


def test_b13_a_wheel_for_a_newer_glibc_only_is_explained(publish, fake_index, warm_settings):
    publish("lib", "1.0", tag="cp311-cp311-manylinux_2_39_aarch64")
    with pytest.raises(
        RecipeError, match=r"(?s)glibc 2\.35.*manylinux_2_39_aarch64.*lib has no wheel that fits"
    ):
        Resolver(warm_settings(pypi=fake_index.url())).resolve(Question(IMAGE, ("lib",)))


def test_a_distribution_with_only_source_is_explained(tmp_path, fake_index, warm_settings):
    path = tmp_path / "lib-1.0.tar.gz"
    path.write_bytes(b"sources")
    fake_index.add(path)
    with pytest.raises(RecipeError, match=r"(?s)no usable wheels.*lib has no wheel that fits.*`git`"):
        Resolver(warm_settings(pypi=fake_index.url())).resolve(Question(IMAGE, ("lib",)))


def test_a_misspelled_requirement_is_the_recipes_error(fake_index, warm_settings):
    with pytest.raises(RecipeError, match="no-such-thing"):
        Resolver(warm_settings(pypi=fake_index.url())).resolve(Question(IMAGE, ("no-such-thing",)))


def test_an_index_that_does_not_answer_is_unreachable(warm_settings, monkeypatch):
    monkeypatch.setenv("UV_HTTP_RETRIES", "0")
    with pytest.raises(UnreachableError, match=r"(?s)'pypi'.*FLBUILD_INDEX_PYPI_URL"):
        Resolver(warm_settings(pypi="http://127.0.0.1:9/simple")).resolve(Question(IMAGE, ("lib",)))


def test_offline_answers_from_what_was_seen_before(publish, fake_index, warm_settings):
    publish("lib", "1.0")
    settings = warm_settings(pypi=fake_index.url())
    online = Resolver(settings).resolve(Question(IMAGE, ("lib",)))
    fake_index.requests.clear()
    assert Resolver(settings, offline=True).resolve(Question(IMAGE, ("lib",))) == online
    with pytest.raises(HostError, match="--offline"):
        Resolver(settings, offline=True).resolve(Question(IMAGE, ("other",)))
    assert not fake_index.requests


def test_credentials_reach_the_index_and_no_message(publish, fake_index, warm_settings):
    fake_index.password = "needed"
    publish("lib", "1.0")
    index = IndexSettings(url=fake_index.url(), username=SecretStr("me"), password=SecretStr("p@ss word"))
    resolver = Resolver(warm_settings(pypi=index))
    assert versions(resolver.resolve(Question(IMAGE, ("lib",)))) == {"lib": "1.0"}
    with pytest.raises(RecipeError) as caught:
        resolver.resolve(Question(IMAGE, ("lib>1",)))
    assert "p@ss" not in str(caught.value)
    assert "p%40ss" not in str(caught.value)


def test_a_local_folder_of_wheels_is_resolved_against(tmp_path, make_wheel, warm_settings):
    path = make_wheel(tmp_path / "wheels", "lib", "1.0")
    (found,) = Resolver(warm_settings(pypi=path.parent)).resolve(Question(IMAGE, ("lib",)))
    assert [wheel.location for wheel in found.wheels] == [str(path)]


def test_a_local_simple_tree_is_resolved_against(tmp_path, make_wheel, warm_settings):
    path = make_wheel(tmp_path / "tree" / "lib", "lib", "1.0")
    path.with_name("index.html").write_text(f'<a href="{path.name}">{path.name}</a>')
    (found,) = Resolver(warm_settings(pypi=tmp_path / "tree")).resolve(Question(IMAGE, ("lib",)))
    assert [wheel.location for wheel in found.wheels] == [str(path)]


def test_the_hash_that_an_index_does_not_give_is_taken_from_the_file(publish, fake_index, warm_settings):
    fake_index.html = True
    served = publish("lib", "1.0+local", index="pypi")
    served.listed = None
    (found,) = Resolver(warm_settings(pypi=fake_index.url())).resolve(Question(IMAGE, ("lib",)))
    assert [wheel.filename for wheel in found.wheels] == [served.filename]
    assert [wheel.sha256 for wheel in found.wheels] == [sha256_bytes(served.body)]


def test_the_users_own_uv_settings_change_nothing(publish, fake_index, warm_settings, monkeypatch):
    publish("lib", "1.0")
    monkeypatch.setenv("UV_INDEX", "http://127.0.0.1:9/simple")
    monkeypatch.setenv("UV_EXCLUDE_NEWER", "2001-01-01")
    answer = Resolver(warm_settings(pypi=fake_index.url())).resolve(Question(IMAGE, ("lib",)))
    assert versions(answer) == {"lib": "1.0"}


@pytest.mark.parametrize(
    ("glibc", "expected"),
    [
        ("2.36", "aarch64-manylinux_2_36"),
        ("2.30", "aarch64-manylinux_2_28"),
        ("2.50", "aarch64-manylinux_2_40"),
    ],
)
def test_uv_is_asked_for_the_newest_platform_the_base_runs(glibc, expected):
    assert uv_platform(Environment("3.11", "linux/arm64", glibc)) == expected


def test_a_base_too_old_for_any_wheel_is_refused():
    with pytest.raises(HostError, match=r"2\.12"):
        uv_platform(Environment("3.11", "linux/amd64", "2.12"))
