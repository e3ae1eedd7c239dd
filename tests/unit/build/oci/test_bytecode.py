from __future__ import annotations

import importlib.util
import marshal
import subprocess
import sys
from itertools import permutations

import pytest

from flbuild.build.oci.bytecode import compile_entries
from flbuild.build.oci.entries import Content, Entry
from flbuild.build.oci.interpreter import Interpreter
from flbuild.errors import BuildError

SITE = "usr/local/lib/python3.11/dist-packages"


class Counter:
    def __init__(self):
        self.done = 0

    def advance(self, amount):
        self.done += amount

    def note(self, text):
        pass


def entry(name, source):
    return Entry(f"{SITE}/{name}", Content.of(source), 0o644, "demo")


@pytest.fixture
def compiled(interpreter, scheme):
    def run(entries, using=interpreter):
        return compile_entries(entries, using, scheme, Counter())

    return run


COOKIE = b"# coding: iso8859_15\nx = 1\n"
"""Reading it makes an interpreter load a codec, whose names then live as long as the process."""

SHARES_NAMES = b"decoding_table = encoding_table = charmap_encode = 1\n"
"""Has names in common with that codec."""


def test_the_file_is_what_the_interpreter_loads_without_looking_at_the_source(compiled, tmp_path):
    (made,) = compiled([entry("demo/mod.py", b"answer = 42\n")]).values()
    data = made.content.data
    assert data[:4] == importlib.util.MAGIC_NUMBER
    assert int.from_bytes(data[4:8], "little") == 0b01  # by hash, not checked
    assert data[8:16] == importlib.util.source_hash(b"answer = 42\n")
    path = tmp_path / "mod.pyc"
    path.write_bytes(data)
    code = f"import runpy; print(runpy.run_path({str(path)!r})['answer'])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "42\n"


def test_it_stands_where_python_looks_for_it_and_names_the_images_path(compiled):
    made = compiled([entry("demo/mod.py", b"1")])[f"{SITE}/demo/mod.py"]
    assert made.path == f"{SITE}/demo/__pycache__/mod.cpython-311.pyc"
    assert marshal.loads(made.content.data[16:]).co_filename == f"/{SITE}/demo/mod.py"
    assert made.owner == "demo"


@pytest.mark.parametrize("workers", [1, 3])
def test_the_bytes_do_not_depend_on_what_a_process_compiled_before(compiled, workers, monkeypatch):
    """From version 3 on, marshal tells how often the whole process uses an object (Python 3.10 does)."""
    size = max(len(COOKIE), len(SHARES_NAMES))
    names = {"cookie.py": COOKIE, "names.py": SHARES_NAMES, "again.py": SHARES_NAMES}
    # Of equal size, so that they are taken in the order given.
    sources = [entry(name, text.ljust(size, b"\n")) for name, text in names.items()]
    alone = {path: made for source in sources for path, made in compiled([source]).items()}
    monkeypatch.setattr("flbuild.build.oci.bytecode.os.cpu_count", lambda: workers)
    for order in permutations(sources):
        assert compiled(order) == alone


@pytest.mark.parametrize("source", [b"def broken(:\n", b"x = 1\x00", b"# coding: klingon\n"])
def test_a_source_that_does_not_compile_has_no_byte_code(compiled, source):
    """Wheels carry templates and tests for other versions; pip leaves them out as well."""
    assert compiled([entry("bad.py", source), entry("good.py", b"1")]).keys() == {f"{SITE}/good.py"}


def test_a_source_that_warns_is_compiled_without_a_word(compiled, capfd):
    assert compiled([entry("mod.py", b"x = '\\d' is 1\n")])
    assert capfd.readouterr().err == ""


def test_a_deeply_nested_source_is_compiled_where_python_itself_can(compiled):
    assert compiled([entry("deep.py", b"x = " + b"-" * 3000 + b"1\n")])


@pytest.mark.parametrize("deep", [b"-" * 200_000 + b"1", b"1+" * 100_000 + b"1"])
def test_a_source_too_deep_for_any_parser_does_not_end_the_worker(compiled, deep):
    made = compiled([entry("deep.py", b"x = " + deep), entry("good.py", b"1")])
    assert made.keys() == {f"{SITE}/good.py"}


def test_only_modules_below_site_packages_are_compiled(compiled):
    script = Entry("usr/local/bin/tool.py", Content.of(b"1"), 0o755, "demo")
    data = Entry(f"{SITE}/demo/data.txt", Content.of(b"1"), 0o644, "demo")
    assert compiled([script, data]) == {}


def test_modules_of_this_package_do_not_shadow_the_interpreters(compiled):
    """The worker's folder holds names such as `config` and `tar`."""
    assert compiled([entry("mod.py", b"import config")])


def test_an_interpreter_that_dies_names_the_file_it_was_at(compiled):
    dying = Interpreter((sys.executable, "-c", "raise SystemExit(3)"), ())
    with pytest.raises(BuildError, match=r"compiling .*mod\.py of demo ended the interpreter"):
        compiled([entry("mod.py", b"1")], dying)
