"""Laws of the tree's file: nothing is lost, nothing damaged is loaded."""

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arborvox.errors import ArborvoxError
from arborvox.tree import CodeTree, HuffmanTree, load_tree, random_tree, save_tree

UNITS = st.lists(
    st.text(st.characters(exclude_categories=["Cs", "Cc", "Zl", "Zp"]), min_size=1, max_size=3),
    min_size=2,
    max_size=30,
    unique=True,
)


@settings(deadline=None, derandomize=True, max_examples=40)
@given(UNITS, st.integers(1, 1000))
def test_what_was_saved_is_loaded(tmp_path_factory, units: list[str], first: int) -> None:
    path = tmp_path_factory.mktemp("tree") / "tree.json"
    counts = [first + n * n for n in range(len(units))]
    for tree in (HuffmanTree.from_counts(counts, units), random_tree(counts)):
        save_tree(tree, path)
        loaded = load_tree(path)
        assert loaded == tree
        assert (loaded.units, loaded.kind, type(loaded)) == (tree.units, tree.kind, type(tree))


def test_saving_what_was_loaded_gives_the_same_bytes(tmp_path: Path) -> None:
    save_tree(HuffmanTree.from_counts([3, 1, 4, 1, 5], units="abcde"), tmp_path / "a.json")
    save_tree(load_tree(tmp_path / "a.json"), tmp_path / "b.json")
    assert (tmp_path / "a.json").read_bytes() == (tmp_path / "b.json").read_bytes()


def test_a_deep_tree_is_saved_and_loaded(tmp_path: Path) -> None:
    tree = HuffmanTree.from_counts([2**n for n in range(5001)])
    assert tree.depth == 5000
    save_tree(tree, tmp_path / "deep.json")
    assert load_tree(tmp_path / "deep.json") == tree


def write_damaged(path: Path, **changes: object) -> Path:
    save_tree(HuffmanTree.from_counts([1, 2, 4], units="abc"), path)
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))
    return path


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"format": "oak"}, "not a tree file"),
        ({"version": 99}, "version 99"),
        ({"kind": "oak"}, "Unknown kind"),
        ({"nodes": []}, "must not be empty"),
        ({"nodes": "no"}, "list of pairs"),
        ({"nodes": [[1, -3], [0, -2]]}, "incomplete"),
        ({"nodes": [[-1, -3], [1, -2]]}, "cyclic"),
        ({"nodes": [[1, -3], [-1]]}, "must be a pair"),
        ({"nodes": [[1, -3], [-1, -2.5]]}, "whole numbers"),
        ({"nodes": [[1, -3], [-1, 10**30]]}, "list of numbers"),
        ({"nodes": [[1, -3]]}, "2 inner nodes"),
        ({"leaves": [["a", 0.2], ["b", 0.8]]}, "1 inner nodes"),
        ({"leaves": [["a", 1.0]]}, "at least 2"),
        ({"leaves": [["a", 0.2], ["b", 0.3], ["c", "x"]]}, "token 2"),
        ({"leaves": [["a", 0.2], ["a", 0.3], ["c", 0.5]]}, "twice"),
        ({"leaves": [["a", 0.2], [None, 0.3], ["c", 0.5]]}, "2 units"),
        ({"leaves": [["a", 0.2], ["b", 0.2], ["c", 0.2]]}, "sum to 1"),
        ({"leaves": [["a", float("nan")], ["b", 0.2], ["c", 0.2]]}, "finite"),
    ],
)
def test_a_damaged_tree_is_refused_by_name(tmp_path: Path, changes: dict, message: str) -> None:
    path = write_damaged(tmp_path / "tree.json", **changes)
    with pytest.raises(ArborvoxError, match=message) as caught:
        load_tree(path)
    assert str(path) in str(caught.value)


def test_damaged_json_is_refused_by_line(tmp_path: Path) -> None:
    path = tmp_path / "tree.json"
    save_tree(HuffmanTree.from_counts([1, 2, 4]), path)
    path.write_text(path.read_text()[:-20])
    with pytest.raises(ArborvoxError, match="line"):
        load_tree(path)
    path.write_text("[1, 2]")
    with pytest.raises(ArborvoxError, match="not a tree file"):
        load_tree(path)
    with pytest.raises(ArborvoxError, match="no file"):
        load_tree(tmp_path / "missing.json")


def test_a_tree_for_other_tokens_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "tree.json"
    save_tree(HuffmanTree.from_counts([1, 2, 4], units="abc"), path)
    assert isinstance(load_tree(path, "abc"), CodeTree)
    with pytest.raises(ArborvoxError, match="3 leaves, they are 4"):
        load_tree(path, "abcd")
    with pytest.raises(ArborvoxError, match="token 1 is 'b' in the tree and 'x'"):
        load_tree(path, "axc")
