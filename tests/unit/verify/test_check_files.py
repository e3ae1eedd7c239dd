from __future__ import annotations

import pytest

SCRIPT = "usr/local/bin/vllm"


def test_scripts_with_an_interpreter_in_the_image_are_fine(case, link):
    case.base |= {"bin": link("usr/bin"), "usr/bin/python3.11": (b"\x7fELF", 0o755)}
    case.base["usr/bin/python3"] = link("python3.11")
    case.files[SCRIPT] = (b"#!/bin/python3 -s\nimport vllm\n", 0o755)
    assert case.errors("files") == []


def test_B74_a_script_with_crlf_is_found(case):
    case.files[SCRIPT] = (b"#!/usr/bin/python3\r\nimport vllm\r\n", 0o755)
    (error,) = case.errors("files")
    assert error.startswith(f"/{SCRIPT}: its first line ends in CR LF")


def test_B74_the_entrypoint_counts_wherever_it_is(case):
    case.recipe["entrypoint"] = ["/opt/start.sh"]
    case.files["opt/start.sh"] = (b"#!/bin/sh\r\nexec vllm\r\n", 0o755)
    (error,) = case.errors("files")
    assert error.startswith("/opt/start.sh: its first line ends in CR LF")


@pytest.mark.parametrize("line", [b"#!/usr/bin/python3.9\n", b"#!\n"])
def test_an_interpreter_that_is_not_there_is_found(case, line):
    case.files[SCRIPT] = (line, 0o755)
    (error,) = case.errors("files")
    assert error.endswith("is not in the image")


def test_an_interpreter_may_be_in_a_base_that_was_not_read(case, carried):
    case.image_base, case.inventory = True, (carried("pip"),)
    case.files[SCRIPT] = (b"#!/usr/local/python3.11/bin/python3\n", 0o755)
    assert case.errors("files") == []


def test_programs_and_data_have_no_first_line_to_check(case):
    case.files["usr/local/bin/tool"] = (b"\x7fELF\r\n", 0o755)
    case.files["usr/local/bin/readme"] = b"#!/nowhere\n"
    assert case.errors("files") == []
