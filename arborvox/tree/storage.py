"""The tree's file: JSON that a person can read, validated whenever it is loaded.

A leaf is a line `["unit", probability]` in the order of the token ids, an inner node a line
`[left, right]` in level order, where a child below 0 is a leaf: -1 is token 0, -2 is token 1. In a
tree of questions (version 2) it is a line `[left, right, "question"]`, or null: yes is on the left.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from arborvox.errors import ArborvoxError
from arborvox.tree.code_tree import LONGEST_QUESTION, CodeTree
from arborvox.tree.huffman import HuffmanTree

FORMAT = "arborvox-tree"
VERSION = 1  # of a tree without questions, as ever
VERSION_WITH_QUESTIONS = 2

# A file is refused by its size before anything of it is read, and by its signs before it is parsed.
MOST_UNITS = 1_000_000
BYTES_A_UNIT = 128  # of its leaf and its inner node, laid out by whatever program
BYTES_A_CHARACTER = 12  # two escapes, as in \ud83c\udf33
BYTES_A_QUESTION = BYTES_A_CHARACTER * LONGEST_QUESTION
SIGNS_A_UNIT = {b"[": 2, b"{": 0, b",": 5}
MOST_MIB = 256  # whatever the units
ROOM = 4096  # for everything else
SIGNS_OF_THE_REST = 16

REMEDY = "build the tree again from these tokens"


def save_tree(tree: CodeTree, path: Path) -> None:
    """Write a tree in one stroke; the same tree gives the same bytes."""
    from arborvox.files import write_text_atomic  # the layer needs trees, but no files

    write_text_atomic(path, tree_to_json(tree))


def tree_to_json(tree: CodeTree) -> str:
    """Return the text of a tree's file."""
    names: Sequence[str | None] = tree.units or [None] * tree.num_leaves
    leaves = zip(names, tree.probabilities.tolist(), strict=True)
    nodes = zip(tree.left.tolist(), tree.right.tolist(), strict=True)
    encode = json.JSONEncoder(ensure_ascii=False).encode
    version = VERSION if tree.questions is None else VERSION_WITH_QUESTIONS
    head = f'"format": "{FORMAT}",\n"version": {version},\n"kind": {encode(tree.kind)},\n'
    leaf_lines = ",\n".join(map(encode, leaves))
    if tree.questions is None:
        node_lines = ",\n".join(f"[{left}, {right}]" for left, right in nodes)
    else:
        asked = zip(nodes, tree.questions, strict=True)
        node_lines = ",\n".join(encode([*children, question]) for children, question in asked)
    return f'{{\n{head}"leaves": [\n{leaf_lines}\n],\n"nodes": [\n{node_lines}\n]\n}}\n'


def load_tree(path: Path, units: Sequence[str] | None = None) -> CodeTree:
    """Read a tree, check that it is sound and, where units are given, that it was made for them."""
    from arborvox.files import read_json

    try:
        _check_size(path, units)
        tree = _tree_from_json(read_json(path, MOST_MIB))
        if units is not None:
            check_units(tree, units)
    except ArborvoxError as error:
        # read_json names the file by itself
        raise error if str(path) in str(error) else ArborvoxError(f"{path}: {error}") from None
    return tree


def check_units(tree: CodeTree, units: Sequence[str]) -> None:
    """Refuse a tree that was not made for these tokens."""
    if tree.num_leaves != len(units):
        raise ArborvoxError(
            f"The tree does not match the tokens: it has {tree.num_leaves} leaves, they are "
            f"{len(units)}; {REMEDY}."
        )
    for token, (leaf, unit) in enumerate(zip(tree.units or units, units, strict=True)):
        if leaf != unit:
            raise ArborvoxError(
                f"The tree does not match the tokens: token {token} is {leaf!r} in the tree and "
                f"{unit!r} in the tokens; {REMEDY}."
            )


def _check_size(path: Path, units: Sequence[str] | None) -> None:
    """Refuse a file that cannot be a tree over these units, or over as many as there may be."""
    if not path.is_file():
        return  # whoever reads it says so
    num_units = MOST_UNITS if units is None else len(units)
    text = "" if units is None else "".join(units)
    most_bytes = ROOM + BYTES_A_UNIT * num_units + BYTES_A_CHARACTER * len(text)
    most_bytes += BYTES_A_QUESTION * (0 if units is None else num_units)
    refusal = f"the file is too large for a tree over {num_units:,} units"
    if units is not None:
        refusal = f"The tree does not match the tokens: {refusal}; {REMEDY}."
    else:
        refusal = f"This cannot be a tree: {refusal}."
    if path.stat().st_size > most_bytes:
        raise ArborvoxError(refusal)
    data = path.read_bytes()
    for sign, number in SIGNS_A_UNIT.items():
        within_units = num_units if units is None else text.count(sign.decode())
        if data.count(sign) > number * num_units + within_units + SIGNS_OF_THE_REST:
            raise ArborvoxError(refusal)


def _tree_from_json(value: Any) -> CodeTree:
    if not isinstance(value, dict) or value.get("format") != FORMAT:
        raise ArborvoxError(f'This is not a tree file: "format" must be "{FORMAT}".')
    version = value.get("version")
    if type(version) is not int or version not in (VERSION, VERSION_WITH_QUESTIONS):
        raise ArborvoxError(
            f"The file has version {str(version)[:20]}; this Arborvox reads versions {VERSION} and "
            f"{VERSION_WITH_QUESTIONS}."
        )
    has_questions = version == VERSION_WITH_QUESTIONS
    leaves, rows = _rows(value, "leaves", 2), _rows(value, "nodes", 3 if has_questions else 2)
    nodes = [row[:2] for row in rows]
    for token, (unit, probability) in enumerate(leaves):
        if not isinstance(unit, str | None) or type(probability) not in (int, float):
            raise ArborvoxError(f'"leaves", token {token}: must be [unit, probability].')
    for node, pair in enumerate(nodes):
        if not all(type(child) is int for child in pair):
            raise ArborvoxError(f'"nodes", node {node}: must be [left, right], whole numbers.')
    questions = [row[2] for row in rows] if has_questions else None
    for node, question in enumerate(questions or ()):
        if not isinstance(question, str | None):
            raise ArborvoxError(f'"nodes", node {node}: its question must be a text or null.')
    names = [unit for unit, _ in leaves if unit is not None]
    kind = value.get("kind")
    if not isinstance(kind, str):
        raise ArborvoxError('"kind" must be the name of a kind of tree.')
    make = HuffmanTree if kind == "huffman" else CodeTree
    return make(
        left=np.array([left for left, _ in nodes]),
        right=np.array([right for _, right in nodes]),
        probabilities=np.array([probability for _, probability in leaves]),
        units=tuple(names) or None,
        kind=kind,
        questions=None if questions is None else tuple(questions),
    )


def _rows(value: dict[str, Any], key: str, length: int) -> list[Any]:
    """Return a list of lists of some length, pairs as a rule, out of the file."""
    what = "pair" if length == 2 else "triple"
    rows = value.get(key)
    if not isinstance(rows, list) or not rows:
        raise ArborvoxError(f'"{key}" must be a list of {what}s, and it must not be empty.')
    for number, row in enumerate(rows):
        if not isinstance(row, list) or len(row) != length:
            raise ArborvoxError(f'"{key}", entry {number}: must be a {what}.')
    return rows
