"""Whatever a stranger writes into a tree's file: it is loaded and sound, or refused by name."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from budgets import examples
from hypothesis import given
from hypothesis import strategies as st

from arborvox.errors import ArborvoxError
from arborvox.tree import TREES, HuffmanTree, load_tree, save_tree
from arborvox.tree.measures import entropy_bits, expected_code_length
from arborvox.tree.storage import tree_to_json

UNITS = ["<eos>", "a", "ß", "🌳", " "]
SOUND: dict[str, Any] = json.loads(tree_to_json(HuffmanTree.from_counts([5, 4, 3, 2, 1], UNITS)))

ODD_NUMBERS = st.one_of(
    st.integers(-7, 7),
    st.integers(),
    st.sampled_from([10**30, -(10**400), 2**31, -(2**31) - 1, 2**63, 1e308, -0.0, 0.5]),
    st.floats(),
)
ODD_VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), ODD_NUMBERS, st.text(max_size=4), st.sampled_from(UNITS)),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=6,
)


@st.composite
def damaged_values(draw: st.DrawFn) -> dict[str, Any]:
    """A sound tree in which some entries were replaced, dropped, doubled or exchanged."""
    value = json.loads(json.dumps(SOUND))
    for _ in range(draw(st.integers(1, 4))):
        key = draw(st.sampled_from(sorted(value)))
        rows = value[key]
        if not isinstance(rows, list) or not rows or draw(st.booleans()):
            value[key] = draw(ODD_VALUES | st.sampled_from(sorted(TREES)))
            continue
        place = draw(st.integers(0, len(rows) - 1))
        match draw(st.sampled_from(["replace", "drop", "double", "exchange", "inside"])):
            case "replace":
                rows[place] = draw(ODD_VALUES)
            case "drop":
                del rows[place]
            case "double":
                rows.append(rows[place])
            case "exchange":
                other = draw(st.integers(0, len(rows) - 1))
                rows[place], rows[other] = rows[other], rows[place]
            case "inside":
                if isinstance(rows[place], list) and rows[place]:
                    side = draw(st.integers(0, len(rows[place]) - 1))
                    rows[place][side] = draw(ODD_VALUES)
    return value


@st.composite
def damaged_bytes(draw: st.DrawFn) -> bytes:
    """The bytes of a sound file with some of them replaced, cut out or put in."""
    data = tree_to_json(HuffmanTree.from_counts([5, 4, 3, 2, 1], UNITS)).encode()
    for _ in range(draw(st.integers(1, 4))):
        begin = draw(st.integers(0, len(data)))
        end = draw(st.integers(begin, min(len(data), begin + 8)))
        data = data[:begin] + draw(st.binary(max_size=6)) + data[end:]
    return data


def check_loaded_or_refused(path: Path, units: list[str] | None) -> None:
    """Load a file; a tree that comes out of it must do all that trees do."""
    try:
        tree = load_tree(path, units)
    except ArborvoxError as error:
        assert str(path) in str(error)
        assert len(str(error)) < 2000
        return
    codes = tree.codes()
    assert len(set(codes)) == tree.num_leaves
    assert sum(2.0 ** -len(code) for code in codes) == pytest.approx(1.0)
    assert np.isfinite([expected_code_length(tree), entropy_bits(tree.probabilities)]).all()
    save_tree(tree, path)
    assert load_tree(path) == tree


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where each example's file stands."""
    return tmp_path_factory.mktemp("hostile") / "tree.json"


@examples(100, 2000)
@given(value=damaged_values(), known=st.booleans())
def test_damaged_values_are_loaded_whole_or_refused(path: Path, value: Any, known: bool) -> None:
    path.write_text(json.dumps(value), encoding="utf-8")
    check_loaded_or_refused(path, UNITS if known else None)


@examples(100, 2000)
@given(data=damaged_bytes(), known=st.booleans())
def test_damaged_bytes_are_loaded_whole_or_refused(path: Path, data: bytes, known: bool) -> None:
    path.write_bytes(data)
    check_loaded_or_refused(path, UNITS if known else None)
