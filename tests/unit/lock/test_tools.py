from __future__ import annotations

import pytest

from flbuild.errors import RecipeError
from flbuild.index.client import IndexClient
from flbuild.index.store import FileStore
from flbuild.lock.pin import Pinner
from flbuild.lock.resolve import Resolver
from flbuild.lock.tools import environment, lock_tools, satisfied, tool_requirements
from flbuild.progress import Silent


@pytest.fixture
def lock(tmp_path, fake_index, make_wheel, warm_settings):
    """`lock(requirements, old=(), moving=())`; `lock.publish(name, version, ...)` fills the index."""
    settings = warm_settings(pypi=fake_index.url())
    client = IndexClient(settings, Silent(), wait=0)

    def run(*requirements, old=(), moving=()):
        known = {tool.name: tool for tool in old}
        store = FileStore(settings, client, Silent())
        pinner = Pinner(client, store, environment("3.10"), Silent(), old=known)
        return lock_tools(requirements, Resolver(settings), pinner, old=old, moving=frozenset(moving))

    run.publish = lambda name, version, **options: fake_index.add(
        make_wheel(tmp_path / "made", name, version, **options)
    )
    return run


def test_the_product_names_the_tools_that_build_vllm():
    assert {"setuptools", "setuptools-rust", "setuptools-scm"} <= {
        requirement.partition(">")[0].partition("=")[0] for requirement in tool_requirements()
    }


def test_tools_come_with_what_the_oldest_and_the_newest_python_need(lock):
    lock.publish(
        "backend", "1.0", requires=["old-help; python_version < '3.11'", "new-help; python_version > '3.12'"]
    )
    lock.publish("old-help", "1.0")
    lock.publish("new-help", "1.0")
    assert [tool.name for tool in lock("backend")] == ["backend", "new-help", "old-help"]


def test_a_tool_that_the_oldest_python_cannot_run_is_not_taken(lock):
    lock.publish("backend", "1.0")
    lock.publish("backend", "2.0", requires_python=">=3.12")
    assert [tool.version for tool in lock("backend")] == ["1.0"]


def test_a_tool_for_one_platform_only_is_refused(lock):
    lock.publish("backend", "1.0", tag="cp310-abi3-manylinux_2_17_x86_64")
    with pytest.raises(RecipeError, match=r"backend 1\.0 has no wheel for every platform"):
        lock("backend")


def test_tools_that_do_not_exist_are_said_to_be_build_tools(lock):
    lock.publish("backend", "1.0")
    with pytest.raises(RecipeError, match=r"(?s)build tools.*backend>=9"):
        lock("backend>=9")


def test_locked_tools_stay_until_they_may_move(lock):
    lock.publish("backend", "1.0")
    old = lock("backend")
    lock.publish("backend", "2.0")
    assert lock("backend", old=old) == old
    assert lock("backend", old=old, moving=["backend"])[0].version == "2.0"


def test_whether_tools_suffice_is_known_without_asking(lock):
    lock.publish("backend", "1.0")
    tools = lock("backend")
    assert satisfied(["backend>=1", "Backend<2"], tools)
    assert not satisfied(["backend>=2"], tools)
    assert not satisfied(["backend", "other"], tools)
