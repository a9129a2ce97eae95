"""The tree's file: JSON that a person can read, validated whenever it is loaded.

A leaf is a line `["unit", probability]` in the order of the token ids, an inner node a line
`[left, right]` in level order, where a child below 0 is a leaf: -1 is token 0, -2 is token 1.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from arborvox.errors import ArborvoxError
from arborvox.files import read_json, write_text_atomic
from arborvox.tree.code_tree import CodeTree
from arborvox.tree.huffman import HuffmanTree

FORMAT = "arborvox-tree"
VERSION = 1


def save_tree(tree: CodeTree, path: Path) -> None:
    """Write a tree in one stroke; the same tree gives the same bytes."""
    write_text_atomic(path, tree_to_json(tree))


def tree_to_json(tree: CodeTree) -> str:
    """Return the text of a tree's file."""
    names: Sequence[str | None] = tree.units or [None] * tree.num_leaves
    leaves = zip(names, tree.probabilities.tolist(), strict=True)
    nodes = zip(tree.left.tolist(), tree.right.tolist(), strict=True)
    encode = json.JSONEncoder(ensure_ascii=False).encode
    head = f'"format": "{FORMAT}",\n"version": {VERSION},\n"kind": {encode(tree.kind)},\n'
    leaf_lines = ",\n".join(map(encode, leaves))
    node_lines = ",\n".join(f"[{left}, {right}]" for left, right in nodes)
    return f'{{\n{head}"leaves": [\n{leaf_lines}\n],\n"nodes": [\n{node_lines}\n]\n}}\n'


def load_tree(path: Path, units: Sequence[str] | None = None) -> CodeTree:
    """Read a tree, check that it is sound and, where units are given, that it was made for them."""
    try:
        tree = _tree_from_json(read_json(path))
        if units is not None:
            check_units(tree, units)
    except ArborvoxError as error:
        # read_json names the file by itself
        raise error if str(path) in str(error) else ArborvoxError(f"{path}: {error}") from None
    return tree


def check_units(tree: CodeTree, units: Sequence[str]) -> None:
    """Refuse a tree that was not made for these tokens."""
    remedy = "build the tree again from these tokens"
    if tree.num_leaves != len(units):
        raise ArborvoxError(
            f"The tree does not match the tokens: it has {tree.num_leaves} leaves, they are "
            f"{len(units)}; {remedy}."
        )
    for token, (leaf, unit) in enumerate(zip(tree.units or units, units, strict=True)):
        if leaf != unit:
            raise ArborvoxError(
                f"The tree does not match the tokens: token {token} is {leaf!r} in the tree and "
                f"{unit!r} in the tokens; {remedy}."
            )


def _tree_from_json(value: Any) -> CodeTree:
    if not isinstance(value, dict) or value.get("format") != FORMAT:
        raise ArborvoxError(f'This is not a tree file: "format" must be "{FORMAT}".')
    if value.get("version") != VERSION:
        raise ArborvoxError(
            f"The file has version {value.get('version')!r}; this Arborvox reads version {VERSION}."
        )
    leaves, nodes = _pairs(value, "leaves"), _pairs(value, "nodes")
    for token, (unit, probability) in enumerate(leaves):
        if not isinstance(unit, str | None) or type(probability) not in (int, float):
            raise ArborvoxError(f'"leaves", token {token}: must be [unit, probability].')
    for node, pair in enumerate(nodes):
        if not all(type(child) is int for child in pair):
            raise ArborvoxError(f'"nodes", node {node}: must be [left, right], whole numbers.')
    names = [unit for unit, _ in leaves if unit is not None]
    kind = value.get("kind")
    make = HuffmanTree if kind == "huffman" else CodeTree
    return make(
        left=np.array([left for left, _ in nodes]),
        right=np.array([right for _, right in nodes]),
        probabilities=np.array([probability for _, probability in leaves]),
        units=tuple(names) or None,
        kind=str(kind),
    )


def _pairs(value: dict[str, Any], key: str) -> list[Any]:
    """Return a list of two-element lists out of the file."""
    rows = value.get(key)
    if not isinstance(rows, list) or not rows:
        raise ArborvoxError(f'"{key}" must be a list of pairs, and it must not be empty.')
    for number, row in enumerate(rows):
        if not isinstance(row, list) or len(row) != 2:
            raise ArborvoxError(f'"{key}", entry {number}: must be a pair.')
    return rows
