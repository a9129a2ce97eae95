"""The recipes that come with the project can be planned as they are."""

from pathlib import Path

import pytest

from arborvox.pipeline.plan import make_plan
from arborvox.pipeline.variants import read_variants

RECIPES = sorted((Path(__file__).parent.parent / "recipes").glob("*.yaml"))


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_every_recipe_compares_models_that_differ(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ARBORVOX_DATA", str(tmp_path))
    variants = read_variants(path, ())
    plan = make_plan(variants, (0, 1), tmp_path / "out")
    compared = [variant for variant in variants if variant.config.role == "compare"]
    assert len(compared) >= 2
    trained = [stage for stage in plan.stages if stage.kind == "train"]
    assert len(trained) == 2 * len(variants)


def test_there_is_a_recipe_for_each_table_of_the_paper() -> None:
    groups = [f"common_voice_{group}" for group in ("romance", "slavic", "turkic", "all")]
    assert {path.stem for path in RECIPES} == {"demo", "ucla", "ucla_trees", *groups}
