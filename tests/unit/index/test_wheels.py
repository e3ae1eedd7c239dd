from __future__ import annotations

import struct
import zipfile

import pytest

from flbuild.errors import BuildError
from flbuild.index.tags import Environment
from flbuild.index.wheels import check_metadata, check_wheel, native_files, pinned, read_facts

IMAGE = Environment("3.11", "linux/arm64", "2.35")
NATIVE_TAG = "cp311-cp311-manylinux_2_28_aarch64"


def elf(machine: int, glibc: int | None = None, padding: int = 0) -> bytes:
    header = b"\x7fELF\x02\x01\x01" + bytes(9) + struct.pack("<HH", 3, machine) + bytes(44)
    return header + bytes(padding) + (f"\0GLIBC_2.{glibc}\0".encode() if glibc is not None else b"")


def messages(findings):
    return "\n".join(finding.message for finding in findings)


def test_a_sound_wheel_has_no_findings(tmp_path, make_wheel):
    path = make_wheel(tmp_path, "thing", "1.0", requires=["other>=2"], requires_python=">=3.10")
    assert check_wheel(path, IMAGE) == []
    facts = read_facts(path)
    assert (facts.name, facts.version, facts.requires, facts.requires_python) == (
        "thing",
        "1.0",
        ("other>=2",),
        ">=3.10",
    )


def test_b22_an_early_blank_line_in_metadata_is_found(tmp_path, make_wheel):
    metadata = (
        "Metadata-Version: 2.1\nName: thing\nVersion: 1.0\n\nRequires-Dist: torch\nRequires-Dist: numpy\n"
    )
    path = make_wheel(tmp_path, "thing", "1.0", metadata=metadata)
    (finding,) = check_wheel(path)
    assert "hides 2 headers" in finding.message
    assert "Requires-Dist: torch" in finding.message


def test_b22_a_blank_line_at_the_top_is_found(tmp_path, make_wheel):
    metadata = "\nMetadata-Version: 2.1\nName: thing\nVersion: 1.0\n"
    findings = check_metadata("thing-1.0-py3-none-any.whl", metadata.encode())
    assert "early blank line" in messages(findings)


def test_a_description_that_mentions_headers_is_no_header(tmp_path, make_wheel):
    metadata = "Metadata-Version: 2.1\nName: thing\nVersion: 1.0\n\nUse it so:\n\nRequires-Dist: thing\n"
    assert check_wheel(make_wheel(tmp_path, "thing", "1.0", metadata=metadata)) == []


def test_b23_native_code_in_a_wheel_for_any_platform_is_refused(tmp_path, make_wheel):
    path = make_wheel(tmp_path, "thing", "1.0", files={"thing/_c.so": elf(183)})
    assert "tagged 'any' and holds thing/_c.so for aarch64" in messages(check_wheel(path))


def test_a_native_wheel_of_the_wrong_machine_is_refused(tmp_path, make_wheel):
    path = make_wheel(tmp_path, "thing", "1.0", tag=NATIVE_TAG, files={"thing/_c.so": elf(62)})
    text = messages(check_wheel(path, IMAGE, deep=False))
    assert "is for x86_64, the name says manylinux_2_28_aarch64" in text
    assert "the image for aarch64" in text


def test_a_wheel_of_another_platform_does_not_fit_the_image(tmp_path, make_wheel):
    path = make_wheel(tmp_path, "thing", "1.0", tag="cp311-cp311-manylinux_2_28_x86_64")
    assert "no wheel for aarch64" in messages(check_wheel(path, IMAGE))


def test_b13_native_code_that_needs_a_newer_glibc_than_its_tag_says_is_refused(tmp_path, make_wheel):
    files = {"thing/_c.so.1": elf(183, 17) + elf(183, 38)}
    path = make_wheel(tmp_path, "thing", "1.0", tag=NATIVE_TAG, files=files)
    assert "needs glibc 2.38, the base has 2.35" in messages(check_wheel(path, IMAGE))


def test_a_symbol_version_across_the_border_of_two_reads_is_found(tmp_path, make_wheel):
    files = {"thing/_c.so": elf(183, 31, padding=(1 << 22) - 64 - 5)}
    path = make_wheel(tmp_path, "thing", "1.0", tag=NATIVE_TAG, files=files)
    assert native_files(path)[0].glibc_minor == 31


def test_content_that_record_does_not_list_is_found(tmp_path, make_wheel):
    path = make_wheel(tmp_path, "thing", "1.0")
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("thing/extra.py", "x = 1\n")
    assert "RECORD does not match" in messages(check_wheel(path))


def test_changed_content_is_found(tmp_path, make_wheel):
    path = make_wheel(tmp_path, "thing", "1.0", files={"thing.py": b"value = 1\n"})
    with zipfile.ZipFile(path) as archive:
        content = {name: archive.read(name) for name in archive.namelist()}
    content["thing.py"] = b"value = 2\n"
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in content.items():
            archive.writestr(name, data)
    assert "RECORD does not match" in messages(check_wheel(path))


def test_metadata_of_another_version_is_found(tmp_path, make_wheel):
    metadata = "Metadata-Version: 2.1\nName: thing\nVersion: 2.0\n"
    path = make_wheel(tmp_path, "thing", "1.0", metadata=metadata)
    assert "METADATA says thing 2.0" in messages(check_wheel(path))


def test_b20_a_requirement_that_pins_torch_is_named():
    requires = ("torch==2.9.0", "torch-npu===2.9", "numpy==1.26.4", "Torch>=2.9", "pyyaml")
    assert pinned(requires, ["torch", "torch_npu"]) == ("torch==2.9.0", "torch-npu===2.9")


def test_something_that_is_no_wheel_is_said_to_be_none(tmp_path):
    path = tmp_path / "thing-1.0-py3-none-any.whl"
    path.write_bytes(b"not a zip")
    with pytest.raises(BuildError, match="is not a wheel"):
        read_facts(path)
