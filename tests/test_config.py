"""Recipes: what loads, what is refused, and what the refusal says."""

from pathlib import Path

import pytest

from arborvox.config import CommonVoiceCorpus, Recipe, load_recipe, show_recipe, validate_recipe
from arborvox.errors import ArborvoxError
from arborvox.yaml12 import parse_yaml


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    path = tmp_path / "recipe.yaml"
    path.write_text(
        "name: trial\ncorpus:\n  kind: common-voice\n  languages: [no, ca]\n  alpha: 5e-1\n"
    )
    return path


def test_defaults_fill_what_a_recipe_leaves_out(recipe: Path) -> None:
    loaded = load_recipe(recipe)
    assert loaded.name == "trial"
    assert loaded.tree == Recipe().tree


def test_norwegian_is_a_language_and_5e_1_a_number(recipe: Path) -> None:
    loaded = load_recipe(recipe)
    assert loaded.corpus.languages == ("no", "ca")
    assert isinstance(loaded.corpus, CommonVoiceCorpus)
    assert loaded.corpus.alpha == 0.5


def test_what_is_shown_loads_back_to_the_same(recipe: Path) -> None:
    loaded = load_recipe(recipe, ["model.size=tiny", "train.learning_rate=5e-5"])
    assert validate_recipe(parse_yaml(show_recipe(loaded), "shown"), "shown") == loaded


def test_overrides_win(recipe: Path) -> None:
    assert load_recipe(recipe, ["train.batch_s=60"]).train.batch_s == 60.0


def test_sections_are_frozen(recipe: Path) -> None:
    with pytest.raises(ValueError, match="frozen"):
        load_recipe(recipe).train.batch_s = 1.0  # type: ignore[misc]


def test_a_size_stands_for_its_numbers_and_written_keys_win(recipe: Path) -> None:
    model = load_recipe(recipe, ["model.size=tiny", "model.heads=4"]).model
    assert (model.width, model.heads) == (32, 4)


@pytest.mark.parametrize(
    ("override", "words"),
    [
        ("tree.kid=huffman", ["tree.kid", "tree.kind"]),
        ("tokens.vocabsize=3", ["tokens.vocab_size"]),
        ("trees.kind=huffman", ["trees", "did you mean tree"]),
        ("batch_s=3", ["batch_s", "train.batch_s"]),
        ("train.batch_s=much", ["train.batch_s", '"much"']),
        ("train.batch_s='60'", ["train.batch_s", "number"]),
        ("corpus.hours=-1", ["corpus.hours", "greater than 0"]),
        ("tree.kind=oak", ["tree.kind", "huffman"]),
        ("name.x=1", ["name is a value"]),
        ("train.batch_s", ["section.key=value"]),
        ("model.heads=3", ["multiple of heads"]),
    ],
)
def test_a_wrong_override_names_itself_and_the_way_out(
    recipe: Path, override: str, words: list[str]
) -> None:
    with pytest.raises(ArborvoxError) as caught:
        load_recipe(recipe, [override])
    for word in words:
        assert word in str(caught.value)


def test_a_wrong_key_names_its_file_and_line(tmp_path: Path) -> None:
    path = tmp_path / "bad.yaml"
    path.write_text("name: x\ntrain:\n  bach_s: 60\n")
    with pytest.raises(
        ArborvoxError, match=r"bad\.yaml, line 3: unknown key train\.bach_s.*batch_s"
    ):
        load_recipe(path)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("name: [", "line 1"),
        ("name: a\nname: b\n", "stands twice"),
        ("- a\n", "mapping of sections"),
        ("corpus: &a {more: [*a]}\n", "line 1: it contains itself"),
        ("[1, 2]: 2\n", "line 1: a key must be a word"),
        ("train: {seed: -3}\n", "train.seed"),
        ("name: !!python/object:os.system x\n", "line 1"),
    ],
)
def test_broken_yaml_is_told_with_its_place(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "broken.yaml"
    path.write_text(text)
    with pytest.raises(ArborvoxError, match=words):
        load_recipe(path)


def test_a_missing_recipe_is_named(tmp_path: Path) -> None:
    with pytest.raises(ArborvoxError, match=r"none\.yaml"):
        load_recipe(tmp_path / "none.yaml")
