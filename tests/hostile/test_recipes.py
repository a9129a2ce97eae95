"""Recipes from strangers: whatever they hold, they load or are refused in one sentence."""

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from budgets import examples
from hypothesis import given
from hypothesis import strategies as st

from arborvox.config import Recipe, load_recipe, load_resolved_recipe, show_recipe, validate_recipe
from arborvox.errors import ArborvoxError
from arborvox.files import read_json
from arborvox.yaml12 import MAX_DEPTH, dump_yaml, key_lines, parse_yaml

RECIPES = sorted((Path(__file__).parents[2] / "recipes").glob("*.yaml"))
OLD = sorted((Path(__file__).parents[1] / "version_1").glob("*.yaml"))

EXTREMES = st.sampled_from(
    [0, -1, 1, 2**31, 2**63, 10**4000, -(10**17), 1e-300, 1e300, 1e-9, 2_000_000, 10**9]
)
SCALARS = st.one_of(
    st.none(), st.booleans(), EXTREMES, st.integers(), st.floats(), st.text(max_size=20)
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4)
    ),
    max_leaves=8,
)


def loads_or_refuses(load: Callable[[], Recipe]) -> None:
    """The law: a recipe that can be shown and loaded again, or one sentence."""
    try:
        recipe = load()
    except ArborvoxError as error:
        assert str(error)
        assert "\n" not in str(error)
        return
    assert validate_recipe(parse_yaml(show_recipe(recipe), "shown"), "shown") == recipe


def as_yaml(data: Any) -> str:
    """Write a value as YAML in one line."""
    if isinstance(data, dict):
        return "{" + ", ".join(f"{json.dumps(k)}: {as_yaml(v)}" for k, v in data.items()) + "}"
    if isinstance(data, list):
        return "[" + ", ".join(map(as_yaml, data)) + "]"
    if isinstance(data, float) and not math.isfinite(data):
        return ".nan" if math.isnan(data) else f"{'-' if data < 0 else ''}.inf"
    return json.dumps(data, ensure_ascii=False)


def spots(data: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """List the key paths of everything in a recipe."""
    if isinstance(data, dict):
        inner = list(data.items())
    elif isinstance(data, list):
        inner = list(enumerate(data))
    else:
        inner = []
    return [path, *(spot for key, value in inner for spot in spots(value, (*path, key)))]


WHOLE = [load_recipe(path).model_dump(mode="json") for path in RECIPES]


@st.composite
def mutated(draw: st.DrawFn) -> dict[str, Any]:
    """One of our recipes with a few values, keys or sections exchanged."""
    data: dict[str, Any] = json.loads(json.dumps(draw(st.sampled_from(WHOLE))))
    for _ in range(draw(st.integers(1, 3))):
        *around, key = draw(st.sampled_from([spot for spot in spots(data) if spot]))
        place: Any = data
        for part in around:
            place = place[part]
        change = draw(st.sampled_from(["value", "rename", "delete", "move"]))
        if change == "value" or isinstance(place, list):
            place[key] = draw(VALUES)
        elif change == "rename":
            place[draw(st.text(max_size=10))] = place.pop(key)
        elif change == "delete":
            del place[key]
        else:
            data[draw(st.sampled_from(sorted(Recipe.model_fields)))] = place.pop(key)
    return data


@given(data=mutated())
@examples(100, 2000)
def test_a_changed_recipe_loads_or_is_refused(tmp_path: Path, data: dict[str, Any]) -> None:
    path = tmp_path / "recipe.yaml"
    path.write_text(as_yaml(data), encoding="utf-8")
    loads_or_refuses(lambda: load_recipe(path))
    for version in (1, 2):
        loads_or_refuses(lambda version=version: load_resolved_recipe(path, version))


@given(data=st.dictionaries(st.sampled_from([*Recipe.model_fields, "base", "x"]), VALUES))
@examples(100, 2000)
def test_any_mapping_loads_or_is_refused(tmp_path: Path, data: dict[str, Any]) -> None:
    path = tmp_path / "recipe.yaml"
    path.write_text(as_yaml(data), encoding="utf-8")
    loads_or_refuses(lambda: load_recipe(path))


FRAGMENTS = st.sampled_from(
    [
        *("&a ", "*a", "<<", ": ", "- ", "[", "]", "{", "}", "\n", "  ", "? ", "#", "|", ">"),
        *("!!int ", "!!binary ", "!", '"', "'", "\\UFFFFFFFF", "\\x00", "\\ud800", "%YAML 9.9"),
        *(
            "---",
            "08",
            "0x1",
            ".nan",
            "-.inf",
            "1e999",
            "1" * 5000,
            "\t",
            "\x00",
            "\ufeff",
            "\u2028",
        ),
        *("corpus", "kind", "ucla", "base", "recipe.yaml"),
    ]
)


@given(parts=st.lists(FRAGMENTS | st.text(max_size=5), max_size=30))
@examples(100, 2000)
def test_any_text_loads_or_is_refused(tmp_path: Path, parts: list[str]) -> None:
    path = tmp_path / "recipe.yaml"
    path.write_bytes("".join(parts).encode("utf-8", "surrogatepass"))
    loads_or_refuses(lambda: load_recipe(path))
    loads_or_refuses(lambda: load_resolved_recipe(path, 1))


KEYS = sorted({".".join(map(str, spot)) for whole in WHOLE for spot in spots(whole) if spot})


@given(key=st.sampled_from(KEYS) | st.text(max_size=10), value=VALUES, raw=st.text(max_size=10))
@examples(100, 2000)
def test_any_override_is_taken_or_refused(tmp_path: Path, key: str, value: Any, raw: str) -> None:
    path = tmp_path / "recipe.yaml"
    path.write_text("corpus: {kind: common-voice}\n", encoding="utf-8")
    for text in (as_yaml(value), raw):
        loads_or_refuses(lambda text=text: load_recipe(path, [f"{key}={text}"]))


def grown(levels: int) -> str:
    """Return a text that holds ten times as much with each level."""
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    for level in range(1, levels):
        lines.append(f"a{level}: &a{level} [{', '.join([f'*a{level - 1}'] * 10)}]")
    return "\n".join(lines) + "\n"


def test_aliases_are_counted_before_they_are_written_out(tmp_path: Path) -> None:
    for levels in (6, 10, 40):
        with pytest.raises(ArborvoxError, match=r"line 5: more than 100,000 values"):
            parse_yaml(grown(levels), "bomb")
        with pytest.raises(ArborvoxError, match=r"line 5: more than 100,000 values"):
            key_lines(grown(levels), "bomb")
    assert len(parse_yaml(grown(3), "ours")["a2"]) == 10


def test_a_chain_of_aliases_is_no_way_to_go_deep() -> None:
    lines = ["a0: &a0 [x]", *(f"a{i}: &a{i} [*a{i - 1}]" for i in range(1, 2000))]
    with pytest.raises(ArborvoxError, match=f"nested deeper than {MAX_DEPTH} levels"):
        parse_yaml("\n".join(lines), "deep")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[" * 5000, "nested deeper"),
        ("a: " + "{a: " * 5000, "nested deeper"),
        ("- " * 5000, "nested deeper"),
        ("name: " + "x" * 300_000, "more than 200,000 characters"),
        ("train: {seed: " + "1" * 5000 + "}", "at most 18 digits"),
        ("train: {clip: .nan}", "train.clip: input should be a finite number"),
        ("train: {clip: .inf}", "train.clip: input should be a finite number"),
        ("train: {clip: 1e999}", "train.clip: input should be a finite number"),
        ('name: "a\\0b"', "part of no text"),
        ('name: "\\ud800"', "part of no text"),
        ('name: "\\UFFFFFFFF"', "not valid YAML"),
        ("name: a\0b", "line 1: it has a character"),
        ("train: {seed: !!int abc}", "tags such as"),
        ("features: {num_mels: 1000000000}", "features.num_mels"),
        ("features: {sampling_rate: 1}", "features.sampling_rate"),
        ("features: {shift_s: 1e-9}", "features.shift_s"),
        ("features: {sampling_rate: 1000, window_s: 0.001, shift_s: 0.001}", "only 1 samples"),
        (
            "features: {sampling_rate: 768000, num_mels: 1000, window_s: 0.1}",
            "too long for so many",
        ),
        ("features: {shift_s: 0.03}", "speech would be skipped"),
        ("model: {width: 2000000}", "model.width"),
        ("model: {size: [tiny]}", "model.size"),
        ("name: " + "x" * 5000, "name"),
    ],
)
def test_what_used_to_break_is_refused(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "recipe.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ArborvoxError) as caught:
        load_recipe(path)
    assert message in str(caught.value)
    assert len(str(caught.value)) < 500


def test_zeros_in_front_are_no_octal_numbers() -> None:
    assert parse_yaml("[08, 010, -007]", "zeros") == [8, 10, -7]


def test_a_checkpoints_recipe_has_no_aliases(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    for text in ("corpus: {languages: &a [ca]}\n", "name: &a x\ntrain: {init_from: *a}\n"):
        path.write_text(text, encoding="utf-8")
        load_recipe(path)
        with pytest.raises(ArborvoxError, match="anchors and aliases"):
            load_resolved_recipe(path, 2)
    once = ["ca"]
    assert "*" not in dump_yaml({"a": once, "b": once})


@pytest.mark.parametrize("text", ["[" * 100_000, '{"a": ' * 100_000, "[" + "1" * 5000 + "]"])
def test_deep_json_and_long_numbers_are_refused(text: str, tmp_path: Path) -> None:
    path = tmp_path / "facts.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ArborvoxError, match=r"facts\.json"):
        read_json(path)


@pytest.mark.parametrize("path", OLD, ids=lambda path: path.stem)
def test_an_old_recipe_cut_anywhere_loads_or_is_refused(path: Path, tmp_path: Path) -> None:
    lines = path.read_text(encoding="utf-8").splitlines()
    cut = tmp_path / "config.yaml"
    for length in range(0, len(lines), 7):
        cut.write_text("\n".join(lines[:length]), encoding="utf-8")
        loads_or_refuses(lambda: load_resolved_recipe(cut, 1))
