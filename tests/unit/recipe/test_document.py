from __future__ import annotations

import pytest

from flbuild.errors import RecipeError
from flbuild.recipe.document import key_text, read_document


def test_every_value_knows_its_line(write):
    document = read_document(write("a: 1\nb:\n  - x\n  - {c: y,\n     d: z}\n"))
    assert document.data == {"a": 1, "b": ["x", {"c": "y", "d": "z"}]}
    lines = {key_text(key): line for key, line in document.lines.items()}
    assert lines == {"": 1, "a": 1, "b": 2, "b[0]": 3, "b[1]": 4, "b[1].c": 4, "b[1].d": 5}


def test_a_missing_key_is_placed_on_its_nearest_parent(write):
    document = read_document(write("a: 1\nb:\n  c: {}\n"))
    assert document.line(("b", "c", "d", 3)) == 3
    assert document.line(("zzz",)) == 1


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("b.c", ("b", "c")),
        ("b.e[1]", ("b", "e", 1)),
        ("b.e[7].x", ("b", "e")),
        ("b.f-g.nothing", ("b", "f-g")),
        ("nothing", ()),
    ],
)
def test_a_subject_leads_back_to_its_key(write, text, key):
    document = read_document(write("b:\n  c: 1\n  e: [1, 2]\n  f-g: 1\n"))
    assert document.find(text) == key


def test_scalars_are_kept_as_they_were_written(write):
    document = read_document(write("a: 3.10\nb: no\n"))
    assert document.source == {("a",): "3.10", ("b",): "no"}


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("a: 1\nb: 2\na: 3\n", 3, "'a' is there twice, first on line 1"),
        ("a: {b: 1,\n    b: 2}\n", 2, "'a.b' is there twice"),
        ("a: 1\r\nb: 2\r\n", 1, "CR LF"),
        ("a: 1\nb: 2\r\n", 2, "CR LF"),
        ("a:\n\tb: 1\n", 2, "a tab"),
        ("a:\n  b: 1\n  \tc: 1\n", 3, "a tab"),
        ("a: &x 1\n", 1, "anchor &x"),
        ("b: 1\na: *x\n", 2, "alias *x"),
        ("a: 1\n<<: {b: 1}\n", 2, "merge keys"),
        ("a: 1\nb: !!python/object:os.system x\n", 2, "the tag tag:yaml.org,2002:python/object:os.system"),
        ("a: 1\n1: 2\n", 2, "key 1 is not text"),
        ("a: 1\nno: 2\n", 2, "key no is not text"),
        ("a: 1\n? [b]\n: 2\n", 2, "not text"),
        ("a: 1\n---\nb: 2\n", 2, "second document"),
        ("a: 1\nb: [1, 2\n", 3, "not valid YAML while parsing a flow sequence: expected ',' or ']'"),
        ("a: 1\nb: =\n", 2, "not valid YAML: could not determine a constructor"),
        ("a: b: c\n", 1, "not valid YAML: mapping values are not allowed here"),
        ("a: 1\nb: 2027-02-30\n", 2, "'2027-02-30' is no valid value"),
        ("a: 1\nb: \x00\n", 2, "U+0000"),
        ("", 1, "empty"),
        ("# nothing but this\n", 1, "empty"),
        ("[" * 50_000, 1, "nested too deeply"),
        ("a: " + "x" * (1 << 20), 1, "bytes"),
    ],
)
def test_what_recipes_leave_out_is_refused_with_its_line(write, text, line, words):
    with pytest.raises(RecipeError) as caught:
        read_document(write(text))
    assert str(caught.value).startswith(f"recipes/tiny.yaml:{line}: ")
    assert words in caught.value.what
    assert "flbuild recipe check tiny" in str(caught.value)


def test_text_that_is_not_utf8_is_refused_with_its_line(write):
    path = write("")
    path.write_bytes(b"a: 1\nb: \xff\n")
    with pytest.raises(RecipeError, match=r"^recipes/tiny.yaml:2: .*UTF-8"):
        read_document(path)


def test_a_byte_order_mark_is_not_part_of_the_first_key(write):
    assert read_document(write("\ufeffa: 1\n")).data == {"a": 1}


def test_an_unreadable_file_is_an_error_with_its_cause(tmp_path):
    with pytest.raises(RecipeError, match="cannot be read") as caught:
        read_document(tmp_path / "recipes" / "none.yaml")
    assert caught.value.cause == "No such file or directory"
