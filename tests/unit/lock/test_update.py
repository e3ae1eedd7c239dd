from __future__ import annotations

import threading

import pytest

from flbuild.errors import (
    FlbuildError,
    PolicyError,
    RecipeError,
    RemoteMovedError,
    UnreachableError,
    UsageError,
    VerificationError,
)
from flbuild.files import sha256_file
from flbuild.lock.check import stale
from flbuild.lock.io import write_lock
from flbuild.lock.model import BaseDistribution, Output, PluginRecord
from flbuild.recipe.load import load_recipe

DIGEST = "sha256:" + "1" * 64
IMAGE_BASE = "base: {image: quay.io/team/base:v1, provides: {torch: 2.13.0+cpu}, remove: [old]}"
DEBIAN_BASE = "base: {debian: bookworm, packages: [python3]}"
TORCH = "  - {name: torch, version: 2.13.0+cpu, index: pytorch-cpu}\n"


def versions(files):
    return {file.name: file.version for file in files}


def use_image_base(demo):
    demo.edit(DEBIAN_BASE, IMAGE_BASE)
    demo.edit(TORCH, "")
    demo.bases.inventory = (
        BaseDistribution(name="torch", version="2.13.0+cpu", location="/s/torch", files=("/s/torch/a",)),
        BaseDistribution(name="old", version="1", location="/s/old", files=("/s/old/a",)),
        BaseDistribution(name="regex", version="0.9", location="/s/regex", files=("/s/regex/a",)),
    )


def test_an_entry_holds_the_whole_closure_and_what_each_target_adds(demo):
    image = demo.lock()
    assert versions(image.packages) == {
        "torch": "2.13.0+cpu",
        "numpy": "1.26.4",
        "regex": "1.0",
        "sympy": "1.0",
    }
    assert {name: versions(files) for name, files in image.targets.items()} == {"ci": {"pytest": "8.0"}}
    assert [(source.name, source.version) for source in image.sources] == [("vllm", "0.28.0+empty")]
    assert image.sources[0].source.filename == "vllm-0.28.0.tar.gz"
    assert image.sources[0].sha256 == sha256_file(demo.builder.wheels["vllm"])
    assert not image.unresolved


def test_locking_again_changes_no_byte_and_asks_nobody(demo):
    demo.lock()
    before = demo.text()
    demo.index.requests.clear()
    demo.publish("regex", "2.0")
    demo.lock()
    assert demo.text() == before
    assert not demo.index.requests


def test_a_changed_recipe_moves_only_what_it_names(demo):
    demo.lock()
    demo.publish("regex", "2.0")
    demo.publish("numpy", "1.26.5")
    demo.edit("version: 1.26.4", "version: 1.26.5")
    assert versions(demo.lock().packages) == {
        "torch": "2.13.0+cpu",
        "numpy": "1.26.5",
        "regex": "1.0",
        "sympy": "1.0",
    }


def test_upgrade_moves_the_named_distribution_and_nothing_else(demo):
    demo.lock()
    demo.publish("regex", "2.0")
    demo.publish("sympy", "2.0")
    assert versions(demo.lock(upgrade=["regex"]).packages)["regex"] == "2.0"
    assert versions(demo.read().images["demo"].packages)["sympy"] == "1.0"


def test_an_upgrade_that_needs_another_one_waits_for_it(demo):
    demo.lock()
    demo.publish("regex", "2.0", requires=["sympy>=2"])
    demo.publish("sympy", "2.0")
    assert versions(demo.lock(upgrade=["regex"]).packages)["regex"] == "1.0"
    assert versions(demo.lock(upgrade=["regex", "sympy"]).packages)["regex"] == "2.0"


def test_an_upgrade_that_cannot_be_had_without_another_one_is_refused(demo):
    demo.lock()
    demo.publish("regex", "2.0", requires=["sympy>=2"])
    demo.publish("sympy", "2.0")
    demo.edit("[pytest]", "[pytest, regex>=2]")
    with pytest.raises(RecipeError, match=r"(?s)regex cannot move while everything else stays.*sympy"):
        demo.lock(upgrade=["regex"])
    assert versions(demo.lock(upgrade=["regex", "sympy"]).packages)["sympy"] == "2.0"


def test_an_upgrade_of_something_unknown_offers_the_right_name(demo):
    demo.lock()
    with pytest.raises(UsageError, match="perhaps you meant 'regex'"):
        demo.lock(upgrade=["regexp"])


def test_an_upgrade_of_a_pin_points_at_the_recipe(demo):
    demo.lock()
    with pytest.raises(UsageError, match=r"recipes/demo\.yaml pins numpy 1\.26\.4"):
        demo.lock(upgrade=["numpy"])


def test_b4_vllms_requirements_come_from_the_wheel_built_for_the_empty_device(demo):
    demo.publish("vllm", "0.28.0", requires=["nvidia-cublas"])
    demo.publish("nvidia-cublas", "1.0")
    assert "nvidia-cublas" not in versions(demo.lock().packages)


def test_b5_a_cuda_requirement_in_the_empty_build_is_refused_and_its_origin_named(demo):
    demo.build_vllm("nvidia-cublas")
    demo.publish("nvidia-cublas", "1.0")
    with pytest.raises(RecipeError, match=r"(?s)linux/amd64.*nvidia-cublas, required by vllm"):
        demo.lock()
    assert not demo.read().images


def test_b8_a_forbidden_dependency_of_one_machine_is_refused_there_only(demo):
    demo.build_vllm("xgrammar")
    demo.publish("xgrammar", "1.0", requires=["triton; platform_machine == 'x86_64'"])
    demo.publish("triton", "3.0")
    with pytest.raises(RecipeError, match="triton, required by xgrammar"):
        demo.lock()
    demo.edit("linux/amd64", "linux/arm64")
    assert "xgrammar" in versions(demo.lock().packages)


def test_a_forbidden_dependency_can_be_dropped_by_an_override(demo):
    demo.build_vllm("xgrammar")
    demo.publish("xgrammar", "1.0", requires=["triton"])
    demo.edit("forbid:", 'overrides: [triton; sys_platform == "never"]\nforbid:')
    assert "xgrammar" in versions(demo.lock().packages)


def test_b67_a_package_of_a_named_index_is_taken_from_there_only(demo):
    demo.publish("torch", "2.13.0+cpu", files={"shadow.py": b"x"})
    demo.publish("torch", "9.0")
    torch = next(file for file in demo.lock().packages if file.name == "torch")
    assert torch.index == "pytorch-cpu"
    assert torch.sha256 == demo.index.files["pytorch-cpu"][torch.filename].listed
    assert not demo.index.asked("/pypi/simple/torch/")


def test_b67_the_other_way_round_a_named_index_gives_nothing_that_was_not_asked_of_it(demo):
    demo.publish("regex", "7.0", index="pytorch-cpu")
    assert versions(demo.lock().packages)["regex"] == "1.0"
    assert not demo.index.asked("/pytorch-cpu/simple/regex/")


def test_an_index_that_cannot_be_reached_stops_the_lock_and_names_the_setting(demo):
    demo.edit(TORCH, TORCH + "  - {name: flagtree, version: '1.0', index: flagos}\n")
    with pytest.raises(
        UnreachableError, match=r"(?s)'flagos'.*flagtree.*FLBUILD_INDEX_FLAGOS_URL.*--allow-missing"
    ):
        demo.lock()
    assert not demo.read().images


def test_what_is_missing_is_recorded_and_the_rest_resolved(demo):
    demo.edit(TORCH, TORCH + "  - {name: flagtree, version: '1.0', index: flagos}\n")
    demo.bases.reachable = False
    image = demo.lock(allow_missing=True)
    assert {(item.name, item.version, item.source) for item in image.unresolved} == {
        ("debian", "bookworm", "debian"),
        ("flagtree", "1.0", "flagos"),
    }
    assert image.base is None
    assert "regex" in versions(image.packages)
    assert "127.0.0.1" not in demo.text()
    before = demo.text()
    demo.lock(allow_missing=True)
    assert demo.text() == before


def test_b67_what_is_missing_is_not_taken_from_the_public_index_instead(demo):
    demo.edit("index: pytorch-cpu", "index: flagos")
    demo.publish("torch", "2.13.0", requires=["nvidia-cublas"])
    image = demo.lock(allow_missing=True)
    assert [item.name for item in image.unresolved] == ["torch"]
    assert "torch" not in versions(image.packages)
    assert not demo.index.asked("/pypi/simple/torch/")


def test_a_find_links_file_stands_in_for_an_index_that_cannot_be_reached(demo, tmp_path, make_wheel):
    demo.edit("index: pytorch-cpu", "index: flagos")
    path = make_wheel(tmp_path / "links", "torch", "2.13.0+cpu", requires=["sympy"])
    demo.settings = demo.settings.model_copy(update={"find_links": (str(path.parent),)})
    torch = next(file for file in demo.lock().packages if file.name == "torch")
    assert (torch.index, torch.filename, torch.sha256) == ("flagos", path.name, sha256_file(path))


def test_a_version_that_the_named_index_lacks_is_gone_and_the_known_ones_listed(demo):
    demo.edit("2.13.0+cpu", "2.14.0+cpu")
    with pytest.raises(FlbuildError, match=r"(?s)'pytorch-cpu' has no torch 2\.14\.0\+cpu.*2\.13\.0\+cpu"):
        demo.lock()


def test_b13_a_wheel_of_a_named_index_for_a_newer_glibc_is_refused(demo):
    demo.index.files["pytorch-cpu"].clear()
    demo.publish("torch", "2.13.0+cpu", index="pytorch-cpu", tag="cp311-cp311-manylinux_2_39_x86_64")
    with pytest.raises(RecipeError, match=r"need glibc 2\.39 or later, and the base has 2\.36"):
        demo.lock()


def test_b22_a_wheel_whose_metadata_hide_headers_is_refused(demo):
    metadata = "Metadata-Version: 2.1\nName: torch\nVersion: 2.13.0+cpu\n\nRequires-Dist: sympy\n"
    demo.index.files["pytorch-cpu"].clear()
    demo.publish("torch", "2.13.0+cpu", index="pytorch-cpu", metadata=metadata)
    with pytest.raises(VerificationError, match="early blank line"):
        demo.lock()


def test_b23_native_code_in_a_wheel_for_any_platform_is_refused(demo):
    demo.publish("sympy", "2.0", files={"sympy/_c.so": b"\x7fELF"})
    with pytest.raises(VerificationError, match="tagged 'any'"):
        demo.lock()


def test_b20_a_plugin_that_pins_torch_is_refused(demo):
    folder = demo.project.root / "plugin"
    folder.mkdir()
    (folder / "pyproject.toml").write_text('[project]\nname = "p"\ndependencies = ["torch==2.9.0"]\n')
    with pytest.raises(RecipeError, match=r"plugin/pyproject\.toml: the plugin pins torch==2\.9\.0"):
        demo.lock()


def test_what_the_plugin_requires_is_part_of_the_closure(demo):
    folder = demo.project.root / "plugin"
    folder.mkdir()
    demo.publish("pyyaml", "6.0")
    (folder / "pyproject.toml").write_text('[project]\nname = "p"\ndependencies = ["PyYAML>=6"]\n')
    assert versions(demo.lock().packages)["pyyaml"] == "6.0"


def test_b64_other_bytes_under_a_locked_name_stop_a_new_lock(demo):
    demo.lock()
    served = demo.index.files["pypi"]["regex-1.0-py3-none-any.whl"]
    served.listed = "0" * 64
    demo.edit("[pytest]", "[pytest, ruff]")
    with pytest.raises(RemoteMovedError, match=r"(?s)other bytes.*regex-1\.0.*--upgrade regex"):
        demo.lock()


def test_a_base_stays_until_the_recipe_names_another(demo):
    demo.lock()
    demo.bases.digest = "sha256:" + "2" * 64
    demo.edit("version: 1.26.4", "version: '2.0'")
    assert demo.lock().base.layer.digest == DIGEST
    demo.edit("packages: [python3]", "packages: [python3, ca-certificates]")
    assert demo.lock().base.layer.digest == "sha256:" + "2" * 64


def test_refreshing_the_base_leaves_every_package(demo):
    before = demo.lock()
    demo.bases.digest = "sha256:" + "2" * 64
    demo.publish("regex", "2.0")
    demo.index.requests.clear()
    after = demo.lock(refresh_base=True)
    assert after.base.layer.digest == "sha256:" + "2" * 64
    assert after.packages == before.packages
    assert not demo.index.requests


def test_b41_b52_a_base_that_changes_its_kind_needs_consent(demo):
    use_image_base(demo)
    demo.lock()
    demo.bases.digest_kind = "index"
    with pytest.raises(PolicyError, match=r"(?s)was an image.*is an index now.*--allow-kind-change"):
        demo.lock(refresh_base=True)
    assert demo.lock(refresh_base=True, allow_kind_change=True).base.digest_kind == "index"


def test_a_base_that_does_not_carry_what_it_should_provide_is_refused(demo):
    use_image_base(demo)
    demo.bases.inventory = ()
    with pytest.raises(RecipeError, match=r"provides says torch 2\.13\.0\+cpu, the base carries none"):
        demo.lock()


def test_what_the_base_provides_is_in_no_file_of_the_lock(demo):
    use_image_base(demo)
    demo.publish("torch", "2.13.0")
    assert "torch" not in versions(demo.lock().packages)


def test_file_lists_are_kept_for_what_leaves_the_base_only(demo):
    use_image_base(demo)
    inventory = {item.name: item.files for item in demo.lock().base.inventory}
    assert inventory == {"torch": (), "old": ("/s/old/a",), "regex": ("/s/regex/a",)}


def test_file_lists_that_a_changed_recipe_needs_are_taken_from_the_locked_base_again(demo):
    use_image_base(demo)
    demo.lock()
    demo.edit("remove: [old]", "remove: [old, other]")
    demo.bases.inventory += (BaseDistribution(name="other", version="1", location="/s/o", files=("/s/o/a",)),)
    locked = demo.read()
    stripped = locked.images["demo"].base
    bare = (*stripped.inventory, demo.bases.inventory[-1].model_copy(update={"files": ()}))
    base = stripped.model_copy(update={"inventory": bare})
    image = locked.images["demo"].model_copy(update={"base": base, "seal": None})
    write_lock(demo.project.lock_path, locked.model_copy(update={"images": {"demo": image}}))
    inventory = {item.name: item.files for item in demo.lock().base.inventory}
    assert inventory["other"] == ("/s/o/a",)
    assert demo.bases.relisted == 1


def test_recorded_outputs_survive_a_new_lock(demo):
    demo.lock()
    output = Output(
        target="release",
        manifest=DIGEST,
        config=DIGEST,
        layers=(DIGEST,),
        diff_ids=(DIGEST,),
        revision="c" * 40,
        plugin=PluginRecord(version="1", filename="p", sha256="1" * 64, archive_sha256="1" * 64),
        builder="oci",
        created="2026-01-01T00:00:00Z",
    )
    lock = demo.read()
    image = lock.images["demo"].model_copy(update={"outputs": (output,)})
    write_lock(demo.project.lock_path, lock.model_copy(update={"images": {"demo": image}}))
    demo.edit("version: 1.26.4", "version: '2.0'")
    assert demo.lock().outputs == (output,)


def test_a_source_is_built_once_and_again_when_the_build_tools_move(demo):
    for tool in demo.read().build_tools:
        demo.publish(tool.name, tool.version)
    demo.project.lock_path.unlink()
    demo.lock()
    demo.edit("[pytest]", "[pytest, ruff]")
    demo.lock()
    assert demo.builder.builds == ["vllm"]
    demo.publish("wheel", "99.0")
    demo.lock(upgrade=["wheel"])
    assert demo.builder.builds == ["vllm", "vllm"]
    assert versions(demo.read().build_tools)["wheel"] == "99.0"


def test_targets_agree_with_each_other_and_with_the_image(demo):
    demo.publish("helper", "1.0")
    demo.publish("helper", "2.0")
    demo.publish("needs-old", "1.0", requires=["helper<2"])
    demo.build_vllm("helper")
    ci = "  ci: {packages: [pytest]}\n"
    demo.edit(ci, ci + "  dev: {extends: ci, packages: [needs-old]}\n")
    image = demo.lock()
    assert versions(image.packages)["helper"] == "1.0"
    assert versions(image.targets["dev"]) == {"pytest": "8.0", "needs-old": "1.0"}


def test_a_failure_leaves_the_lock_as_it_was(demo):
    demo.lock()
    before = demo.text()
    demo.edit("version: 1.26.4", "version: 7.7.7")
    with pytest.raises(RecipeError):
        demo.lock()
    assert demo.text() == before


def test_a_dry_run_writes_nothing(demo):
    assert demo.lock(dry_run=True).packages
    assert not demo.read().images


def test_offline_locks_from_what_was_seen_before(demo):
    demo.lock()
    write_lock(demo.project.lock_path, demo.read().model_copy(update={"images": {}}))
    demo.index.requests.clear()
    assert demo.lock(offline=True).packages
    assert not demo.index.requests


def test_an_entry_without_a_recipe_goes_when_all_are_locked(demo):
    demo.lock()
    lock = demo.read()
    images = {**lock.images, "gone": lock.images["demo"]}
    write_lock(demo.project.lock_path, lock.model_copy(update={"images": images}))
    demo.lock()
    assert set(demo.read().images) == {"demo"}


def test_two_locks_at_the_same_time_leave_one_good_lock(demo):
    threads = [threading.Thread(target=demo.lock) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert stale(load_recipe(demo.recipe_path), demo.read()) == []


def test_what_was_edited_by_hand_is_looked_up_again_not_sealed_as_it_stands(demo):
    written = demo.lock()
    regex = next(file for file in written.packages if file.name == "regex")
    edited = regex.model_copy(update={"size": regex.size + 1, "requires_python": ">=3.5"})
    packages = tuple(edited if file is regex else file for file in written.packages)
    lock = demo.read()
    image = lock.images["demo"].model_copy(update={"packages": packages})
    write_lock(demo.project.lock_path, lock.model_copy(update={"images": {"demo": image}}))
    assert demo.lock() == written
    assert demo.read() == lock


def test_build_tools_that_were_edited_by_hand_are_looked_up_again(demo):
    for tool in demo.read().build_tools:
        demo.publish(tool.name, tool.version)
    demo.lock(upgrade=[tool.name for tool in demo.read().build_tools])
    lock = demo.read()
    tools = tuple(tool.model_copy(update={"size": tool.size + 1}) for tool in lock.build_tools)
    write_lock(demo.project.lock_path, lock.model_copy(update={"build_tools": tools}))
    assert any("build_tools" in line for line in stale(load_recipe(demo.recipe_path), demo.read()))
    demo.lock()
    assert demo.read().build_tools == lock.build_tools
