"""A whole experiment: done once, resumed, done again only as far as needed."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from tiny_corpus import PHONES, run_process
from tiny_experiment import VARIANTS, write_recipe, write_recordings

from arborvox.errors import ArborvoxError
from arborvox.files import hold
from arborvox.pipeline import work
from arborvox.pipeline.experiment import LOCK_NAME, run_experiment
from arborvox.pipeline.stages import RECORD_NAME
from arborvox.report.experiment import load_experiment

SCRIPT = str(Path(__file__).with_name("run_command.py"))


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> Iterator[None]:
    """Keep tiny products from waiting for a second thread."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def recordings(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_recordings(tmp_path_factory.mktemp("corpus") / "tones")


@pytest.fixture(scope="module")
def finished(recordings: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An experiment that ran without any trouble; tests work on copies of it."""
    folder = tmp_path_factory.mktemp("experiment")
    recipe = write_recipe(folder / "recipe.yaml", recordings)
    run_experiment(recipe, folder / "out", [0])
    return folder


@pytest.fixture
def copied(finished: Path, tmp_path: Path) -> Path:
    shutil.copytree(finished, tmp_path / "copy")
    return tmp_path / "copy"


def records(out: Path) -> dict[str, int]:
    """Return when each stage was last sealed."""
    found = sorted(out.rglob(RECORD_NAME))
    return {
        path.parent.relative_to(out).as_posix(): path.stat().st_mtime_ns
        for path in found
        if "set-aside" not in path.parts
    }


def done_again(copied: Path, recordings: Path, **sections: Any) -> set[str]:
    """Run the copy with a changed recipe; return the stages that were done."""
    before = records(copied / "out")
    recipe = write_recipe(copied / "recipe.yaml", recordings, **sections)
    run_experiment(recipe, copied / "out", [0])
    after = records(copied / "out")
    return {name for name, sealed in after.items() if before.get(name) != sealed}


def legs(*kinds: str) -> set[str]:
    return {f"runs/{variant['name']}/seed-0/{kind}" for variant in VARIANTS for kind in kinds}


def test_a_recipe_becomes_a_report(finished: Path) -> None:
    out = finished / "out"
    page = (out / "report/report.html").read_text(encoding="utf-8")
    for told in ("Tones", "Softmax", "H-Softmax", "PER", "x-a", "x-b"):
        assert told in page
    assert set(records(out)) == {
        *("prepare", "tokens", "trees/huffman", "report"),
        *legs("train", "decode-free", "score-free"),
    }
    told = json.loads((out / "experiment.json").read_text(encoding="utf-8"))
    for model in told["models"]:
        assert model["num_parameters"] > 10_000
        assert model["runs"][0]["train_s"] > 0


def test_a_second_run_does_nothing(
    copied: Path, recordings: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*arguments: Any, **options: Any) -> None:
        raise AssertionError("nothing was to be done")

    for name in ("prepare", "build_tokenizer", "build_tree", "train", "score_hypotheses"):
        monkeypatch.setattr(work, name, refuse)
    assert done_again(copied, recordings) == set()


def test_more_resamples_touch_only_the_scores(copied: Path, recordings: Path) -> None:
    again = done_again(copied, recordings, report={"samples": 120})
    assert again == {"report", *legs("score-free")}


def test_another_search_touches_no_model(copied: Path, recordings: Path) -> None:
    again = done_again(copied, recordings, decode={"mode": "ctc-beam", "beam": 2})
    assert {"report", *legs("decode-free")} <= again
    assert not again & {"prepare", "tokens", "trees/huffman", *legs("train")}


def test_what_the_training_set_says_can_be_searched_with(copied: Path, recordings: Path) -> None:
    searched = {"mode": "ctc-beam", "beam": 2, "transcripts_lm": 2, "lm_weight": 0.5}
    again = done_again(copied, recordings, decode=searched)
    assert again == {"lms/order-2", "report", *legs("decode-free", "score-free")}
    made = copied / "out/lms/order-2/lm.arpa"
    hypotheses = copied / "out/runs/softmax/seed-0/decode-free/hyps.jsonl"
    header = json.loads(hypotheses.read_text(encoding="utf-8").split("\n")[0])
    assert header["settings"]["lm"] == str(made)
    counted = {line.split("\t")[1] for line in made.read_text().splitlines() if "\t" in line}
    assert counted >= {f"{one} {other}" for one in PHONES for other in PHONES}
    assert done_again(copied, recordings, decode=searched) == set()


def test_another_training_keeps_data_and_tree_and_sets_the_old_models_aside(
    copied: Path, recordings: Path
) -> None:
    again = done_again(copied, recordings, train={"learning_rate": 1e-3})
    assert again == {"report", *legs("train", "decode-free", "score-free")}
    aside = sorted(path.name for path in (copied / "out/set-aside").iterdir())
    assert aside == ["runs-huffman-seed-0-train-1", "runs-softmax-seed-0-train-1"]
    assert (copied / "out/set-aside" / aside[0] / "final/model.safetensors").exists()


def test_a_longer_training_goes_on_from_the_shorter_one(copied: Path, recordings: Path) -> None:
    run = copied / "out/runs/softmax/seed-0/train"
    before = (run / "metrics.jsonl").read_text().splitlines()[:6]
    done_again(copied, recordings, train={"max_steps": 8})
    after = (run / "metrics.jsonl").read_text().splitlines()
    assert after[:6] == before
    assert max(json.loads(line)["step"] for line in after) == 8
    assert not (copied / "out/set-aside").exists()


def test_a_shorter_training_is_not_the_longer_one(copied: Path, recordings: Path) -> None:
    run = copied / "out/runs/softmax/seed-0/train"
    done_again(copied, recordings, train={"max_steps": 4})
    steps = [json.loads(line)["step"] for line in (run / "metrics.jsonl").read_text().splitlines()]
    assert max(steps) == 4
    assert (copied / "out/set-aside/runs-softmax-seed-0-train-1").exists()


def test_edited_hypotheses_are_not_scored(copied: Path, recordings: Path) -> None:
    path = copied / "out/runs/softmax/seed-0/decode-free/hyps.jsonl"
    before = path.read_text()
    header, *entries = before.splitlines()
    cheated = [{**(e := json.loads(line)), "text": e["reference"]} for line in entries]
    path.write_text("\n".join([header, *map(json.dumps, cheated)]) + "\n")
    done_again(copied, recordings)
    heard = [json.loads(line).get("text") for line in path.read_text().splitlines()]
    assert heard == [json.loads(line).get("text") for line in before.splitlines()]


def test_another_name_does_not_stop_a_training_from_going_on(
    copied: Path, recordings: Path
) -> None:
    again = done_again(copied, recordings, name="Other tones", train={"max_steps": 8})
    assert set(legs("train")) <= again
    assert not (copied / "out/set-aside").exists()


def test_models_with_other_units_are_compared(copied: Path, recordings: Path) -> None:
    tagged = {"name": "tagged", "set": {"tokens.language_tags": True}}
    done_again(copied, recordings, variants=[VARIANTS[0], tagged])
    told = json.loads((copied / "out/experiment.json").read_text())
    assert told["tokens"] == "tokens-tagged/tokens.json"
    assert "tagged" in (copied / "out/report/report.md").read_text()


def test_other_test_sets_are_refused_before_training(copied: Path, recordings: Path) -> None:
    other = {"name": "other", "set": {"corpus.seed": 5}}
    with pytest.raises(ArborvoxError, match=r"prepare-other/.* holds other utterances than"):
        done_again(copied, recordings, variants=[*VARIANTS, other])
    assert not (copied / "out/runs/other").exists()


def test_a_missing_corpus_leaves_nothing_behind(tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path / "recipe.yaml", tmp_path / "nowhere.jsonl")
    with pytest.raises(ArborvoxError, match=r"no file or folder .*nowhere\.jsonl"):
        run_experiment(recipe, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_the_recipes_own_seed_is_used(copied: Path, recordings: Path) -> None:
    recipe = write_recipe(copied / "recipe.yaml", recordings, variants=VARIANTS[:1])
    run_experiment(recipe, copied / "out", overrides=["train.seed=3", "train.max_steps=2"])
    assert (copied / "out/runs/softmax/seed-3/train/final/model.safetensors").exists()


def test_a_label_may_hold_brackets_and_old_notes_are_replaced(
    copied: Path, recordings: Path
) -> None:
    (copied / "out/experiment.json").write_text("{}")
    odd = [{**VARIANTS[0], "label": "Soft [/x] max"}, VARIANTS[1]]
    done_again(copied, recordings, variants=odd)
    assert "Soft [/x] max" in (copied / "out/experiment.json").read_text()


def test_one_more_variant_leaves_the_others_alone(copied: Path, recordings: Path) -> None:
    random = {"name": "random", "set": {"tree.kind": "random"}}
    tree = {"tree.kind": "embedding", "tree.embedding_from": "softmax"}
    embedding = {"name": "embedding", "set": tree}
    again = done_again(copied, recordings, variants=[*VARIANTS, embedding, random])
    assert again == {
        *("report", "trees/random", "trees/embedding"),
        *(f"runs/random/seed-0/{kind}" for kind in ("train", "decode-free", "score-free")),
        *(f"runs/embedding/seed-0/{kind}" for kind in ("train", "decode-free", "score-free")),
    }


def test_a_variant_less_is_told_although_nothing_had_to_be_done(
    copied: Path, recordings: Path
) -> None:
    assert done_again(copied, recordings, variants=VARIANTS[:1]) == {"report"}
    assert "H-Softmax" not in (copied / "out/report/report.md").read_text()


def test_some_of_the_variants_can_be_run_alone(copied: Path, recordings: Path) -> None:
    before = records(copied / "out")
    beam = {
        "name": "beam",
        "against": "softmax",
        "set": {"model.output": "softmax", "decode.mode": "ctc-beam"},
    }
    recipe = write_recipe(copied / "recipe.yaml", recordings, variants=[*VARIANTS, beam])
    run_experiment(recipe, copied / "out", [0], chosen=["beam", "huffman"])
    after = records(copied / "out")
    again = {name for name, sealed in after.items() if before.get(name) != sealed}
    assert again == {"report", "runs/beam/seed-0/decode-free", "runs/beam/seed-0/score-free"}
    told = load_experiment(copied / "out")
    assert [(model.name, model.against) for model in told.models] == [
        ("huffman", None),
        ("beam", None),
    ]
    assert told.command.endswith("--seeds 0 --variants beam,huffman")


def test_each_languages_own_units_are_all_that_is_heard(copied: Path, recordings: Path) -> None:
    again = done_again(copied, recordings, decode={"inventories": "both"})
    assert again == {"report", *legs("decode-inventory", "score-inventory")}
    for variant in VARIANTS:
        folder = copied / f"out/runs/{variant['name']}/seed-0"
        free, restricted = (
            [json.loads(line) for line in (folder / name / "hyps.jsonl").read_text().splitlines()]
            for name in ("decode-free", "decode-inventory")
        )
        assert {entry["id"] for entry in free[1:]} == {entry["id"] for entry in restricted[1:]}
        for entry in restricted[1:]:
            inventory = folder / f"decode-inventory/inventories/{entry['language']}.txt"
            assert set(entry["tokens"]) <= set(inventory.read_text().split())


@pytest.fixture(scope="module")
def undisturbed(recordings: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The experiment of the kill tests, when nobody kills it."""
    folder = tmp_path_factory.mktemp("undisturbed")
    recipe = write_recipe(folder / "recipe.yaml", recordings, variants=VARIANTS[1:])
    done = run_process([SCRIPT, str(recipe), str(folder / "out")])
    assert done.returncode == 0, done.stderr
    return folder


@pytest.mark.parametrize("place", ["backward:3", "decode:1"])
def test_a_killed_run_ends_like_one_that_was_not(
    place: str, undisturbed: Path, tmp_path: Path
) -> None:
    words = [SCRIPT, str(undisturbed / "recipe.yaml"), str(tmp_path / "out")]
    once = str(tmp_path / "killed")
    killed = run_process(words, KILL_AT=place, KILL_ONCE=once)
    assert killed.returncode == -9, killed.stderr
    resumed = run_process(words, KILL_AT=place, KILL_ONCE=once)
    assert resumed.returncode == 0, resumed.stderr
    assert "(going on)" in resumed.stderr
    weights, scores = (
        [(folder / "out/runs/huffman/seed-0" / name).read_bytes() for folder in both]
        for both in [(tmp_path, undisturbed)]
        for name in ("train/final/model.safetensors", "score-free/scores.json")
    )
    assert weights[0] == weights[1]
    assert json.loads(scores[0])["metrics"] == json.loads(scores[1])["metrics"]
    timing = json.loads(
        (tmp_path / "out/runs/huffman/seed-0/decode-free/hyps.timing.json").read_text()
    )
    assert timing["audio_s"] > 0
    assert timing["rtf"]["total"] > 0


def test_two_runs_in_one_folder_exclude_each_other(copied: Path, recordings: Path) -> None:
    with hold(copied / "out" / LOCK_NAME, ""), pytest.raises(ArborvoxError, match="is at work in"):
        done_again(copied, recordings)
