"""Recipes that inherit: what is taken over, what is replaced, and where a mistake is said to be."""

from pathlib import Path

import pytest

from arborvox.config import load_recipe, load_resolved_recipe, show_recipe
from arborvox.errors import ArborvoxError

BASE = """\
name: base
corpus: {kind: common-voice, languages: [ca, es], hours: 10}
train: {batch_s: 40, max_epochs: 3}
variants:
  - {name: first, set: {model.output: softmax}}
  - {name: second, label: Second, set: {model.output: hierarchical, train.clip: 1}}
"""


def write(folder: Path, **recipes: str) -> Path:
    for name, text in recipes.items():
        (folder / f"{name}.yaml").write_text(text, encoding="utf-8")
    return folder / f"{next(iter(recipes))}.yaml"


def test_sections_are_merged_and_lists_replaced(tmp_path: Path) -> None:
    own = "base: base.yaml\nname: own\ncorpus: {languages: [fr]}\ntrain: {max_epochs: 9}\n"
    recipe = load_recipe(write(tmp_path, own=own, base=BASE))
    assert (recipe.name, recipe.train.batch_s, recipe.train.max_epochs) == ("own", 40.0, 9)
    assert recipe.corpus.languages == ("fr",)
    assert recipe.corpus.hours == 10  # type: ignore[attr-defined]
    assert [variant.name for variant in recipe.variants] == ["first", "second"]


def test_variants_are_merged_by_name_and_new_ones_come_last(tmp_path: Path) -> None:
    own = (
        "base: base.yaml\nvariants:\n  - {name: third}\n  - {name: second, set: {train.clip: 2}}\n"
    )
    variants = load_recipe(write(tmp_path, own=own, base=BASE)).variants
    assert [variant.name for variant in variants] == ["first", "second", "third"]
    assert variants[1].label == "Second"
    assert variants[1].set == {"model.output": "hierarchical", "train.clip": 2}


def test_a_corpus_of_another_kind_takes_nothing_over(tmp_path: Path) -> None:
    own = "base: base.yaml\ncorpus: {kind: ucla}\n"
    assert load_recipe(write(tmp_path, own=own, base=BASE)).corpus.languages is None


def test_overrides_win_over_all(tmp_path: Path) -> None:
    path = write(tmp_path, own="base: base.yaml\ntrain: {batch_s: 1}\n", base=BASE)
    assert load_recipe(path, ["train.batch_s=7"]).train.batch_s == 7.0


def test_a_chain_of_bases_is_followed(tmp_path: Path) -> None:
    (tmp_path / "below").mkdir()
    path = write(tmp_path, a="base: b.yaml\nname: a\n", b="base: below/c.yaml\ntrain: {clip: 3}\n")
    write(tmp_path / "below", c="base: d.yaml\ntrain: {clip: 2, keep: 7}\n", d="tree: {seed: 5}\n")
    recipe = load_recipe(path)
    assert (recipe.name, recipe.train.clip, recipe.train.keep, recipe.tree.seed) == ("a", 3, 7, 5)


@pytest.mark.parametrize(
    ("own", "base", "place"),
    [
        ("base: base.yaml\ntrain: {bach_s: 1}\n", BASE, r"own\.yaml, line 2: unknown key train\.b"),
        ("base: base.yaml\n", "name: x\ntrain:\n  clip: -1\n", r"base\.yaml, line 3: train\.clip"),
        (
            "base: base.yaml\nvariants:\n  - name: second\n    role: x\n",
            BASE,
            r"own\.yaml, line 4: variants\.1\.role",
        ),
        (
            "base: base.yaml\ntrain: {keep: 1}\n",
            "train:\n  keep: 0\n  clip: 0\n",
            r"base\.yaml, line 3: train\.clip",
        ),
    ],
)
def test_a_mistake_is_told_with_the_file_that_has_it(
    own: str, base: str, place: str, tmp_path: Path
) -> None:
    with pytest.raises(ArborvoxError, match=place):
        load_recipe(write(tmp_path, own=own, base=base))


@pytest.mark.parametrize(
    ("named", "message"),
    [
        ("own.yaml", "is based on this recipe itself"),
        ("loop.yaml", "is based on this recipe itself"),
        ("../own.yaml", "must lie beside the recipe"),
        ("/etc/hostname", "must lie beside the recipe"),
        ("none.yaml", "there is no recipe"),
        ("''", "name a recipe"),
        ("[base.yaml]", "name a recipe"),
        ("base0.yaml", "more than 10 recipes"),
        ("x" * 3000, "too long"),
    ],
)
def test_a_base_that_cannot_be_is_refused(named: str, message: str, tmp_path: Path) -> None:
    chain = {f"base{i}": f"base: base{i + 1}.yaml\n" for i in range(12)}
    path = write(tmp_path, own=f"base: {named}\n", loop="base: own.yaml\n", base12="", **chain)
    with pytest.raises(ArborvoxError, match=message) as caught:
        load_recipe(path)
    assert ".yaml, line 1: " in str(caught.value)


def test_what_is_shown_has_no_base(tmp_path: Path) -> None:
    recipe = load_recipe(write(tmp_path, own="base: base.yaml\n", base=BASE))
    shown = write(tmp_path, shown=show_recipe(recipe))
    assert load_resolved_recipe(shown, version=2) == recipe
    stranger = write(tmp_path, stranger="base: base.yaml\n")
    with pytest.raises(ArborvoxError, match="unknown key base"):
        load_resolved_recipe(stranger, version=2)
