"""Resolved recipes that an earlier version wrote into its checkpoints load, and mean the same."""

import json
from pathlib import Path

import pytest
from tiny_corpus import TinyCorpus, make_corpus, make_recipe, train_corpus

from arborvox.config import (
    CommonVoiceCorpus,
    FolderCorpus,
    Recipe,
    SyntheticCorpus,
    UclaCorpus,
    load_recipe,
    load_resolved_recipe,
    show_recipe,
)
from arborvox.config.migration import RECIPE_VERSION, RENAMED, migrate_recipe
from arborvox.errors import ArborvoxError
from arborvox.model import checkpoint
from arborvox.model.checkpoint import load_checkpoint
from arborvox.pipeline.stages import RECORD_NAME, was_made_with
from arborvox.yaml12 import dump_yaml, parse_yaml

# Written by version 1, one for each kind of corpus.
VERSION_1 = Path(__file__).parent / "version_1"
FILES = sorted(VERSION_1.glob("*.yaml"))


def test_checkpoints_are_written_in_a_version_that_has_todays_recipes() -> None:
    assert RECIPE_VERSION <= checkpoint.OLDEST_WRITTEN <= checkpoint.VERSION


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_recipe_of_version_1_loads_and_is_shown_in_todays_shape(
    path: Path, tmp_path: Path
) -> None:
    recipe = load_resolved_recipe(path, version=1)
    assert recipe.features.normalize == "utterance"
    shown = tmp_path / "shown.yaml"
    shown.write_text(show_recipe(recipe), encoding="utf-8")
    assert load_resolved_recipe(shown, RECIPE_VERSION) == recipe
    with pytest.raises(ArborvoxError, match=r"unknown key corpus\."):
        load_recipe(path)  # as a recipe it has to be written anew


def test_each_kind_keeps_its_keys() -> None:
    folder, common_voice, synthetic, ucla = (
        load_resolved_recipe(VERSION_1 / f"{name}.yaml", version=1).corpus
        for name in ("folder", "common_voice", "synthetic", "ucla")
    )
    assert folder == FolderCorpus(source="recordings", language="sah")
    assert isinstance(common_voice, CommonVoiceCorpus)
    assert (common_voice.hours, len(common_voice.languages or ())) == (150.0, 5)
    assert isinstance(synthetic, SyntheticCorpus)
    assert (synthetic.sentences, synthetic.words) == (600, (1, 2, 3))
    assert isinstance(ucla, UclaCorpus)
    assert (ucla.dev, ucla.unit) == ("languages", "phones")
    assert [part.kind for part in ucla.more] == ["common-voice", "synthetic"]
    assert isinstance(ucla.more[1], SyntheticCorpus)
    assert ucla.more[1].names == (1, 1, 2)


def test_what_a_kind_never_read_does_not_stand_in_the_way() -> None:
    old = {"corpus": {"kind": "ucla", "unit": "text", "hours": 3, "split": "official"}}
    assert migrate_recipe(old, 1)["corpus"] == {"kind": "ucla", "unit": "phones"}
    old = {"corpus": {"kind": "folder", "split": "official", "folder": {"language": "sah"}}}
    assert migrate_recipe(old, 1)["corpus"] == {"kind": "folder", "language": "sah"}


@pytest.mark.parametrize(
    ("kind", "before", "after"),
    [
        ("folder", "paper", "sentence"),
        ("folder", "speaker", "auto"),  # it was by sentence where speakers were few
        ("common-voice", "paper", "utterance"),
        ("common-voice", "official", "official"),
        ("synthetic", "paper", "utterance"),
    ],
)
def test_a_split_of_version_1_is_what_it_was(kind: str, before: str, after: str) -> None:
    part = {"kind": kind, "split": before}
    corpus = migrate_recipe({"corpus": {**part, "more": [part]}}, 1)["corpus"]
    assert corpus["split"] == corpus["more"][0]["split"] == after


@pytest.mark.parametrize(
    ("kind", "name"),
    [("folder", "sentence"), ("common-voice", "utterance"), ("synthetic", "utterance")],
)
def test_a_recipe_with_an_old_split_is_told_the_new_name(
    tmp_path: Path, kind: str, name: str
) -> None:
    path = tmp_path / "r.yaml"
    path.write_text(f"corpus:\n  kind: {kind}\n  split: paper\n")
    with pytest.raises(ArborvoxError, match=f"line 3: corpus.split: paper is called {name} now"):
        load_recipe(path)


def test_a_key_that_no_version_knew_stays_an_error() -> None:
    assert "oak" in migrate_recipe({"corpus": {"kind": "ucla", "oak": 1}}, 1)["corpus"]


def test_migrating_twice_changes_nothing() -> None:
    for path in FILES:
        once = migrate_recipe(parse_yaml(path.read_text(encoding="utf-8"), "v1"), 1)
        assert migrate_recipe(once, 1) == once
        assert migrate_recipe(once, RECIPE_VERSION) is once


@pytest.mark.parametrize("data", [{"corpus": 5}, {"features": []}, {"corpus": {"kind": []}}, {}])
def test_a_broken_recipe_is_left_to_whoever_checks_it(data: dict[str, object]) -> None:
    assert migrate_recipe(data, 1) == data


def test_every_renamed_key_is_gone_and_its_successor_is_there() -> None:
    for old, new in RENAMED.items():
        section = type(getattr(Recipe(), old[0])).model_fields
        assert old[-1] not in section
        assert len(new) == 1 or new[-1] in section


def as_version_1(recipe: Recipe) -> str:
    """Write a recipe as version 1 did."""
    data = recipe.model_dump(mode="json")
    data["features"]["normalise"] = data["features"].pop("normalize")
    corpus = parse_yaml((VERSION_1 / "folder.yaml").read_text(encoding="utf-8"), "v1")["corpus"]
    return dump_yaml({**data, "corpus": corpus})


def make_older(folder: Path) -> None:
    """Turn a run, all its checkpoints included, into one of version 1."""
    for config in folder.rglob("config.yaml"):
        config.write_text(as_version_1(load_resolved_recipe(config, RECIPE_VERSION)))
    for head in folder.rglob("checkpoint.json"):
        facts = json.loads(head.read_text())
        head.write_text(json.dumps({**facts, "version": 1}))


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> TinyCorpus:
    """A corpus that tests only read."""
    return make_corpus(tmp_path_factory.mktemp("corpus"))


def test_a_run_of_version_1_loads_and_goes_on(corpus: TinyCorpus, tmp_path: Path) -> None:
    """Its keys are compared under their new names: the same recipe resumes, another is refused."""
    run = tmp_path / "run"
    train_corpus(make_recipe(train={"max_steps": 2}), corpus, run)
    weights = load_checkpoint(run).model.state_dict()
    make_older(run)
    assert "normalise" in (run / "final/config.yaml").read_text()
    assert load_checkpoint(run).model.state_dict().keys() == weights.keys()
    with pytest.raises(ArborvoxError, match=r"features\.normalize differ"):
        other = make_recipe(train={"max_steps": 3}, features={"normalize": "utterance"})
        train_corpus(other, corpus, run)
    train_corpus(make_recipe(train={"max_steps": 3}), corpus, run)
    assert load_checkpoint(run).recipe.train.max_steps == 3
    assert "normalize" in (run / "config.yaml").read_text()


def test_stages_of_an_experiment_of_version_1_are_known_again(tmp_path: Path) -> None:
    """Renamed keys alone must not train a model anew."""
    old = parse_yaml((VERSION_1 / "ucla.yaml").read_text(encoding="utf-8"), "v1")
    new = migrate_recipe(old, 1)
    for stage, before, after in (
        ("prepare", old["corpus"], new["corpus"]),
        ("train", {"features": old["features"]}, {"features": new["features"]}),
        ("tokens", old["tokens"], old["tokens"]),
    ):
        record = {"stage": stage, "status": "done", "facts": {"settings": before}}
        (tmp_path / RECORD_NAME).write_text(json.dumps(record))
        assert was_made_with(tmp_path, after, {})
