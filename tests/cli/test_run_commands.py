"""`arborvox run` and `arborvox report` on the command line."""

from collections.abc import Sequence
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from arborvox.cli.run import register
from arborvox.config import load_recipe
from arborvox.errors import ArborvoxError
from arborvox.pipeline import experiment

OWN = Path(__file__).parents[2] / "recipes/own.yaml"


@pytest.fixture
def app() -> typer.Typer:
    made = typer.Typer()
    register(made)
    return made


@pytest.mark.parametrize("seeds", ["", "a", "1,-2", "0,0"])
def test_seeds_are_whole_numbers_each_once(app: typer.Typer, seeds: str, tmp_path: Path) -> None:
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text("name: x\n")
    words = ["run", str(recipe), "--out", str(tmp_path / "out"), "--seeds", seeds]
    result = CliRunner().invoke(app, words)
    assert isinstance(result.exception, ArborvoxError)
    assert "--seeds" in str(result.exception)


def test_options_reach_the_experiment(
    app: typer.Typer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = []
    monkeypatch.setattr(experiment, "run_experiment", lambda *words: calls.append(words))
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text("corpus: {kind: ucla}\n")
    words = ["run", str(recipe), "--out", str(tmp_path), "--seeds", "0, 2", "--set", "name=y"]
    words += ["--variants", "softmax, softmax-lm"]
    result = CliRunner().invoke(app, [*words, "--test-languages", "fin,abk"])
    assert result.exit_code == 0
    overrides = ["name=y", "corpus.test_languages=[fin, abk]"]
    assert calls == [(recipe, tmp_path, [0, 2], overrides, ["softmax", "softmax-lm"])]
    result = CliRunner().invoke(app, [*words[:-1], ","])
    assert "--variants: write names with commas between" in str(result.exception)


def test_an_interrupted_run_says_how_to_go_on(
    app: typer.Typer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from arborvox.pipeline.stages import RunInterruptedError

    def interrupt(*words: object) -> None:
        raise RunInterruptedError

    monkeypatch.setattr(experiment, "run_experiment", interrupt)
    result = CliRunner().invoke(app, ["run", "x.yaml", "--out", str(tmp_path)])
    assert result.exit_code == 130


def test_a_report_needs_an_experiment(app: typer.Typer, tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["report", str(tmp_path)])
    assert isinstance(result.exception, ArborvoxError)
    assert str(tmp_path) in str(result.exception)


@pytest.mark.parametrize(
    ("kind", "languages", "message"),
    [
        ("folder", "fin", "which the kind folder cannot have (ucla can)"),
        ("ucla", "fin,[abk", "with commas between"),
        ("ucla", "", ""),
    ],
)
def test_test_languages_are_codes_of_a_corpus_that_has_them(
    kind: str, languages: str, message: str, app: typer.Typer, tmp_path: Path
) -> None:
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text(f"corpus: {{kind: {kind}, source: {tmp_path}}}\n")
    words = ["run", str(recipe), "--out", str(tmp_path / "out"), "--test-languages", languages]
    result = CliRunner().invoke(app, words)
    assert isinstance(result.exception, ArborvoxError)
    assert message in str(result.exception)
    assert not (tmp_path / "out").exists()


def test_a_pretrained_encoder_is_put_under_the_recipe_and_settings_stand_above_it(
    app: typer.Typer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Sequence[str]] = []

    def note(
        recipe: Path, out: Path, seeds: Sequence[int], overrides: Sequence[str], *others: object
    ) -> None:
        asked.append(overrides)

    monkeypatch.setattr("arborvox.pipeline.experiment.run_experiment", note)
    words = ["run", str(OWN), "--out", str(tmp_path), "--pretrained", "some/name"]
    result = CliRunner().invoke(app, [*words, "--set", "model.freeze=none"])
    assert result.exception is None, result.exception
    model = load_recipe(OWN, asked[0]).model
    assert (model.encoder, model.pretrained, model.freeze) == ("pretrained", "some/name", "none")
