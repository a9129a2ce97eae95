"""Laws of the tree's file: nothing is lost, nothing damaged is loaded."""

import json
from pathlib import Path

import numpy as np
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
        ({"kind": ["huffman"]}, "name of a kind"),
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
        ({"leaves": [["a", 0.2], ["\ud800", 0.3], ["c", 0.5]]}, "no Unicode text"),
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


def refuse_to_read(*_: object, **__: object) -> None:
    raise AssertionError("the file was read")


@pytest.mark.parametrize("units", [None, "abc"])
def test_a_file_of_ten_million_nodes_is_refused_unread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, units: str | None
) -> None:
    path = tmp_path / "tree.json"
    with path.open("wb") as file:
        file.truncate(10_000_000 * len("[9999999, -9999999],\n"))  # takes no room on the disk
    monkeypatch.setattr(Path, "read_bytes", refuse_to_read)
    monkeypatch.setattr(json, "loads", refuse_to_read)
    with pytest.raises(ArborvoxError, match="too large for a tree over"):
        load_tree(path, units)


@pytest.mark.parametrize("nodes", ["[1,-1]," * 40, "0," * 60, "{}," * 30, "[" * 40])
def test_more_nodes_than_the_units_can_have_are_refused_before_they_are_parsed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, nodes: str
) -> None:
    path = write_damaged(tmp_path / "tree.json")
    path.write_text(path.read_text().replace('"nodes": [', f'"nodes": [{nodes}'))
    monkeypatch.setattr(json, "loads", refuse_to_read)
    with pytest.raises(ArborvoxError, match="too large for a tree over 3 units"):
        load_tree(path, "abc")


def test_any_layout_and_any_units_fit_the_size(tmp_path: Path) -> None:
    units = ["[[[,,,{{{" * 9, "🌳" * 30, ",", "[", "a"]
    tree = HuffmanTree.from_counts([1, 2, 4, 8, 16], units)
    path = tmp_path / "tree.json"
    save_tree(tree, path)
    path.write_text(json.dumps(json.loads(path.read_text(encoding="utf-8")), indent=8))
    assert load_tree(path, units) == load_tree(path) == tree


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"format": ' + "[" * 15_000, "nested too deeply"),
        ('{"format": ' + "9" * 5000 + "}", "number that is too long"),
    ],
)
def test_what_python_cannot_parse_is_refused_by_name(
    tmp_path: Path, text: str, message: str
) -> None:
    path = tmp_path / "tree.json"
    path.write_text(text)
    with pytest.raises(ArborvoxError, match=message) as caught:
        load_tree(path)
    assert str(path) in str(caught.value)


def test_a_tree_that_is_a_chain_is_refused_before_its_codes_fill_the_memory() -> None:
    size = 100_000
    nodes = np.arange(1, size, dtype=np.int32)  # each has the next one and a leaf below it
    left, right = nodes.copy(), -nodes
    left[-1] = ~(size - 1)
    with pytest.raises(ArborvoxError, match="too deep"):
        CodeTree(left, right, np.full(size, 1 / size))
