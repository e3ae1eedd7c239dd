from __future__ import annotations

from flbuild.verify.view import File, FileView


def view(*layers):
    """A view of layers that are lists of calls: ("add", path), ("link", path, target), ("hide", path)..."""
    made = FileView()
    for index, layer in enumerate(layers):
        for what, path, *rest in layer:
            if what == "add":
                made.add(File(made.place(path), 1, 0o644, index), path.encode())
            elif what == "link":
                made.add(File(made.place(path), 0, 0o777, index, link=rest[0]), None)
            elif what == "folder":
                made.add_folder(path, index)
            elif what == "opaque":
                made.hide_below(path, index)
            else:
                made.hide(path, index)
    return made


def test_a_later_layer_replaces_a_file():
    made = view([("add", "a")], [("add", "a")])
    assert made.files["a"].layer == 1


def test_a_whiteout_hides_a_file_and_its_content():
    made = view([("add", "a/b"), ("add", "a/c")], [("hide", "a/b")])
    assert set(made.files) == {"a/c"}
    assert set(made.contents) == {"a/c"}
    assert made.hidden == {"a/b"}


def test_a_whiteout_hides_a_folder_with_all_in_it():
    made = view([("add", "a/b/c"), ("add", "a/d"), ("add", "ab")], [("hide", "a")])
    assert set(made.files) == {"ab"}


def test_an_opaque_folder_hides_what_is_below_but_not_what_its_layer_brings():
    made = view(
        [("add", "a/old"), ("add", "a/b/old")], [("add", "a/first"), ("opaque", "a"), ("add", "a/new")]
    )
    assert set(made.files) == {"a/first", "a/new"}


def test_a_whiteout_leaves_what_its_own_layer_brings():
    made = view([("add", "a/old")], [("add", "a/new"), ("hide", "a")])
    assert set(made.files) == {"a/new"}


def test_what_was_hidden_can_come_again():
    made = view([("add", "a/b")], [("hide", "a")], [("add", "a/b")])
    assert made.files["a/b"].layer == 2
    assert [file.path for file in made.below("a")] == ["a/b"]


def test_a_file_in_place_of_a_folder_hides_it_and_the_reverse():
    assert set(view([("add", "a/b")], [("add", "a")]).files) == {"a"}
    assert set(view([("add", "a")], [("folder", "a"), ("add", "a/b")]).files) == {"a/b"}


def test_files_below_a_link_to_a_folder_are_where_the_link_leads():
    made = view([("link", "lib", "usr/lib"), ("add", "usr/lib/x")], [("folder", "lib"), ("add", "lib/y")])
    assert set(made.files) == {"lib", "usr/lib/x", "usr/lib/y"}
    assert {file.path for file in made.below("/lib")} == {"usr/lib/x", "usr/lib/y"}
    assert made.get("/lib/y").path == "usr/lib/y"


def test_whiteouts_follow_links_too():
    made = view([("link", "lib", "usr/lib"), ("add", "usr/lib/x")], [("hide", "lib/x")])
    assert set(made.files) == {"lib"}


def test_links_are_followed_relative_absolute_and_in_chains():
    links = [
        ("add", "usr/bin/python3.11"),
        ("link", "usr/bin/python3", "python3.11"),
        ("link", "bin", "/usr/bin"),
    ]
    made = view(links)
    assert made.get("/bin/python3").path == "usr/bin/python3.11"


def test_links_in_a_circle_and_links_to_nothing_lead_to_no_file():
    made = view([("link", "a", "b"), ("link", "b", "a"), ("link", "c", "gone")])
    assert made.get("a") is None
    assert made.get("c") is None
    assert made.get("a/file") is None


def test_a_path_exists_as_a_file_or_as_a_folder_with_something_in_it():
    made = view([("add", "a/b/c")], [("hide", "a/b/c")], [("add", "d/e")])
    assert made.exists("/d")
    assert made.exists("d/e")
    assert not made.exists("a/b")


def test_a_whiteout_leaves_a_file_that_its_own_layer_brings():
    made = view([("add", "a")], [("add", "a"), ("hide", "a")])
    assert made.files["a"].layer == 1
