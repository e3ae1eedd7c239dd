from __future__ import annotations

import pytest

from flbuild.lock.check import stale
from flbuild.lock.io import write_lock
from flbuild.lock.model import (
    Lock,
    LockedDebianBase,
    LockedFile,
    LockedImage,
    LockedLayer,
    LockedSource,
    SourceFile,
    Unresolved,
)
from flbuild.lock.tools import tool_requirements
from flbuild.recipe.canonical import canonical_hash
from flbuild.recipe.load import load_recipe

DIGEST = "sha256:" + "1" * 64


def an_entry(recipe):
    """The entry of the demo recipe, as locking it writes it."""
    source = SourceFile(index="pypi", filename="vllm-0.28.0.tar.gz", sha256="1" * 64, size=1)
    wheel = "vllm-0.28.0+empty-py3-none-any.whl"
    vllm = LockedSource(
        name="vllm", version="0.28.0+empty", source=source, filename=wheel, sha256="1" * 64, size=1
    )
    layer = LockedLayer(digest=DIGEST, size=1, media_type="application/x", diff_id=DIGEST)
    base = LockedDebianBase(
        suite="bookworm", requested=("python3",), epoch=1, layer=layer, packages=(), glibc="2.36"
    )
    return LockedImage(
        recipe=canonical_hash(recipe),
        platform="linux/amd64",
        python="3.11",
        base=base,
        sources=(vllm,),
        packages=(
            extra("numpy", "1.26.4"),
            extra("sympy"),
            extra("torch", "2.13.0+cpu", index="pytorch-cpu"),
        ),
        targets={"ci": (extra("pytest", "8.0"),)},
    )


@pytest.fixture
def differences(demo):
    """`differences(change, requires=...)`: what `stale` says when `change(image)` is in the lock."""
    write_lock(demo.project.lock_path, Lock(images={"demo": an_entry(load_recipe(demo.recipe_path))}))

    def after(change=None, requires=()):
        lock = demo.read()
        if change is not None:
            image = change(lock.images["demo"]).model_copy(update={"seal": None})
            write_lock(demo.project.lock_path, lock.model_copy(update={"images": {"demo": image}}))
        return stale(load_recipe(demo.recipe_path), demo.read(), requires)

    return after


def with_file(image, name, **changes):
    files = tuple(file.model_copy(update=changes) if file.name == name else file for file in image.packages)
    return image.model_copy(update={"packages": files})


def extra(name, version="1.0", **changes):
    filename = f"{name}-{version}-py3-none-any.whl"
    values = {"name": name, "version": version, "index": "pypi", "filename": filename, "sha256": "1" * 64}
    return LockedFile(**{**values, "size": 1, **changes})


def added(image, file):
    return image.model_copy(update={"packages": (*image.packages, file)})


def test_an_entry_as_locking_writes_it_agrees_with_its_recipe(demo, differences):
    assert differences() == []
    demo.project.lock_path.unlink()
    for tool in tool_requirements():
        name, _, version = tool.partition(",")[0].partition(">=")
        demo.publish(name, version or "1.0")
    demo.lock()
    assert differences() == []


def test_an_absent_entry_is_named(demo):
    assert stale(load_recipe(demo.recipe_path), Lock()) == ["images.lock has no entry 'demo'"]


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("version: 1.26.4", "version: '2.0'", "numpy: the recipe pins 2.0, the lock 1.26.4"),
        ("index: pytorch-cpu", "index: flagos", "torch: the recipe takes it from 'flagos'"),
        ("0.28.0", "0.29.0", "vllm: the recipe builds 0.29.0+empty from source, the lock 0.28.0+empty"),
        ("linux/amd64", "linux/arm64", "platform: the recipe says linux/arm64, the lock linux/amd64"),
        ('"3.11"', '"3.12"', "python: the recipe says 3.12, the lock 3.11"),
        ("bookworm", "trixie", "base: the recipe says debian:trixie, the lock another one"),
        ("[python3]", "[python3, git]", "base: the recipe says debian:bookworm, the lock another one"),
        ("[pytest]", "[pytest, ruff>=1]", "targets.ci: the recipe wants ruff>=1, the lock has no such file"),
        ("[pytest]", "[pytest>8]", "targets.ci: the recipe wants pytest>8"),
        ("forbid: [triton", "forbid: [sym*, triton", "sympy: the lock holds it, the recipe forbids 'sym*'"),
        ("targets:", "env: {A: b}\ntargets:", "in something that is no pin"),
    ],
)
def test_b70_an_edited_recipe_differs_and_the_difference_is_named(demo, differences, old, new, expected):
    demo.edit(old, new)
    assert expected in "\n".join(differences())


def test_what_only_describes_an_image_changes_nothing(demo, differences):
    demo.edit("summary: a small image", "summary: something else")
    assert differences() == []


def test_an_edited_version_is_seen(differences):
    text = "\n".join(differences(lambda image: with_file(image, "sympy", version="9.9")))
    assert "sympy: the lock says 9.9, its file is sympy-1.0" in text


def test_an_edited_file_name_is_seen(differences):
    change = lambda image: with_file(image, "sympy", filename="sympy-1.0-cp312-cp312-win_amd64.whl")  # noqa: E731
    assert "does not fit" in "\n".join(differences(change))


def test_a_file_name_that_is_no_wheel_is_seen(differences):
    change = lambda image: with_file(image, "sympy", filename="sympy-1.0.tar.gz")  # noqa: E731
    assert "not the name of a wheel" in "\n".join(differences(change))


def test_a_forbidden_file_that_was_added_by_hand_is_seen(differences):
    text = "\n".join(differences(lambda image: added(image, extra("nvidia_cublas"))))
    assert "nvidia-cublas: the lock holds it, the recipe forbids 'nvidia-*'" in text


def test_a_file_from_an_index_that_the_recipe_does_not_name_is_seen(differences):
    text = "\n".join(differences(lambda image: added(image, extra("other", index="flagos"))))
    assert "other: the lock takes it from 'flagos', which the recipe does not ask for" in text


def test_a_file_for_another_python_is_seen(differences):
    change = lambda image: with_file(image, "sympy", requires_python=">=3.12")  # noqa: E731
    assert "sympy: it requires Python >=3.12, the image has 3.11" in "\n".join(differences(change))


def test_a_second_file_of_one_distribution_is_seen(differences):
    text = "\n".join(differences(lambda image: added(image, extra("sympy"))))
    assert "sympy: the lock names it more than once in packages" in text


def test_a_removed_pin_is_seen(differences):
    def without_numpy(image):
        return image.model_copy(update={"packages": tuple(f for f in image.packages if f.name != "numpy")})

    assert "numpy: the recipe pins 1.26.4, the lock has none" in differences(without_numpy)


def test_a_removed_source_is_seen(differences):
    text = "\n".join(differences(lambda image: image.model_copy(update={"sources": ()})))
    assert "vllm: the recipe builds 0.28.0+empty from source, the lock has none" in text


def test_a_source_that_the_recipe_does_not_build_is_seen(differences):
    def with_another(image):
        other = image.sources[0].model_copy(update={"name": "other", "filename": "other-1-py3-none-any.whl"})
        return image.model_copy(update={"sources": (*image.sources, other)})

    assert "other: the lock builds it from source" in "\n".join(differences(with_another))


def test_a_missing_base_is_seen_unless_it_is_marked(differences):
    bare = lambda image: image.model_copy(update={"base": None})  # noqa: E731
    assert "base: the lock has none" in "\n".join(differences(bare))
    mark = Unresolved(name="debian", version="bookworm", source="debian", reason="it could not be reached")
    marked = lambda image: image.model_copy(update={"base": None, "unresolved": (mark,)})  # noqa: E731
    assert differences(marked) == []


def test_an_unresolved_pin_agrees_only_in_its_own_version(differences):
    def unresolved(version):
        mark = Unresolved(name="numpy", version=version, source="pypi", reason="it could not be reached")
        return lambda image: image.model_copy(
            update={
                "packages": tuple(file for file in image.packages if file.name != "numpy"),
                "unresolved": (mark,),
            }
        )

    assert differences(unresolved("1.26.4")) == []
    assert "numpy: the recipe pins 1.26.4, the lock has none" in differences(unresolved("1.0"))


def test_a_new_requirement_of_the_plugin_is_seen(differences):
    assert differences(requires=["sympy>=1"]) == []
    assert differences(requires=["pyyaml>=6; python_version < '3.11'"]) == []
    assert differences(requires=["pyyaml>=6"]) == ["the plugin requires pyyaml>=6, the lock has no such file"]


def test_b34_a_base_without_a_tag_is_seen(demo):
    demo.edit(
        "base: {debian: bookworm, packages: [python3]}", "base: {image: quay.io/team/base:v1, remove: [old]}"
    )
    demo.lock()
    lock = demo.read()
    image = lock.images["demo"]
    base = image.base.model_copy(update={"reference": "quay.io/team/base"})
    images = {"demo": image.model_copy(update={"base": base})}
    found = stale(load_recipe(demo.recipe_path), lock.model_copy(update={"images": images}))
    assert "base: the lock pins quay.io/team/base without a tag" in found
