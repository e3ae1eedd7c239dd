from __future__ import annotations

from flbuild.suggest import closest, perhaps


def test_the_nearest_word_keeps_its_spelling():
    assert closest("PyTorch-cpu", ["pypi", "pytorch-CPU"]) == "pytorch-CPU"
    assert closest("zzz", ["pypi"]) is None


def test_few_known_words_are_listed_when_none_is_near():
    assert perhaps("zzz", ["b", "a"]) == "; known: a, b"
    assert perhaps("zzz", [f"word{n}" for n in range(13)]) == ""
    assert perhaps("zzz", []) == ""
    assert perhaps("wrod1", ["word1", "other"]) == "; perhaps you meant 'word1'"
