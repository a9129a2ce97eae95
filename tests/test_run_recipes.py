"""The recipes that come with the project can be planned as they are."""

from pathlib import Path

import pytest

from arborvox.config import load_recipe
from arborvox.pipeline.variants import read_variants
from arborvox.pipeline.work_plan import make_plan

RECIPES = sorted((Path(__file__).parent.parent / "recipes").glob("*.yaml"))
UCLA_RECIPES = ("ucla", "ucla_trees")
LANGUAGES = ("iban", "fongbe", "mboshi", "ibibio")


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_every_recipe_compares_models_that_differ(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for place in ("DATA", "NOISE", *(language.upper() for language in LANGUAGES)):
        monkeypatch.setenv(f"ARBORVOX_{place}", str(tmp_path))
    inventory = tmp_path / "ucla/abk/inventory/phone.txt"
    inventory.parent.mkdir(parents=True)
    inventory.write_text("a\n", encoding="utf-8")
    variants = read_variants(path, ())
    plan = make_plan(variants, (0, 1), tmp_path / "out")
    compared = [variant for variant in variants if variant.config.role == "compare"]
    assert len(compared) >= 2
    trained = [stage for stage in plan.stages if stage.kind == "train"]
    # Those that are only searched otherwise are trained once for all.
    settings = {
        str({key: value for key, value in variant.config.set.items() if key[:7] != "decode."})
        for variant in variants
    }
    once = [variant for variant in variants if "train.seed" in variant.config.set]
    assert len(trained) == 2 * len(settings) - len(once)
    searched = {str(variant.config.set) for variant in compared}
    assert len(searched) == len(compared)


def test_there_is_a_recipe_for_each_table_of_the_paper() -> None:
    groups = [
        f"common_voice_{group}" for group in ("romance", "slavic", "turkic", "all", "pretrained")
    ]
    ucla = ["ucla", "ucla_alone", "ucla_pretrained", "ucla_pretrained_world", "ucla_trees"]
    trial = [f"trees_trial{part}" for part in ("", "_more", "_tenth", "_decoder")]
    iban = ["iban_units", "iban_neighbors"]
    others = ["demo", "live", "own", "common_voice", "languages"]
    assert {path.stem for path in RECIPES} == {*others, *ucla, *trial, *groups, *LANGUAGES, *iban}


def test_the_recipe_of_trees_has_the_settings_of_the_paper_table() -> None:
    """What is told apart must be the trees alone."""
    table, trees = (load_recipe(RECIPES[0].parent / f"{name}.yaml") for name in UCLA_RECIPES)
    assert table.model_copy(update={"name": "", "variants": ()}) == trees.model_copy(
        update={"name": "", "variants": ()}
    )
    earlier = {variant.name: variant.set for variant in table.variants}
    for variant in trees.variants:
        if variant.role == "pretrain":
            assert variant.set == earlier[variant.name]
        else:
            assert variant.set["train.init_from"] == "travelled"
