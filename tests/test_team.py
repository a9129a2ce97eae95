"""Laws of several processes under torchrun: the same results, also when one is killed."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from safetensors.torch import load_file
from team_work import COMMAND, SEARCH, Speech, all_commands, make_speech, results_of, torchrun
from tiny_corpus import (
    TinyCorpus,
    command_arguments,
    make_corpus,
    make_recipe,
    run_process,
    step_losses,
)
from tiny_experiment import write_recipe, write_recordings

from arborvox.corpora.manifests import SKIPPED_NAME, STATS_NAME
from arborvox.shards.packing import pack_manifests


@pytest.fixture(scope="module")
def speech(tmp_path_factory: pytest.TempPathFactory) -> Speech:
    """What all tests read."""
    return make_speech(tmp_path_factory.mktemp("speech"))


@pytest.fixture(scope="module")
def alone(speech: Speech, tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """What one process makes."""
    out = tmp_path_factory.mktemp("alone")
    ended = run_process(all_commands(speech, out))
    assert ended.returncode == 0, ended.stderr
    results = results_of(out)
    assert {"hyps.jsonl", "texts/u00.json", "aligned/alignment.ctm"} <= set(results)
    return results


def check_timing(path: Path, processes: int) -> None:
    """The work of each process is told, and together it is all of it."""
    timing = json.loads(path.read_text(encoding="utf-8"))
    assert {own["rank"] for own in timing["ranks"]} <= set(range(processes))
    assert sum(own["audio_s"] for own in timing["ranks"]) == pytest.approx(timing["audio_s"])


def test_two_processes_write_the_bytes_of_one(
    speech: Speech, alone: dict[str, bytes], tmp_path: Path
) -> None:
    """Also when one of them is killed while it decodes, and all are started again."""
    traps = {"KILL_AT": "decode:2", "KILL_RANK": "any", "KILL_ONCE": str(tmp_path / "died")}
    out = tmp_path / "out"
    out.mkdir()
    ended = run_process(torchrun(2, *all_commands(speech, out), restarts=1), **traps)
    assert ended.returncode == 0, ended.stderr
    assert (tmp_path / "died").exists()
    assert "torchrun lost a process and has started all 2 again" in ended.stderr
    assert "utterances are in" in ended.stderr
    assert results_of(out) == alone
    check_timing(out / "hyps.timing.json", 2)


def test_a_process_killed_while_it_transcribes_costs_one_file(
    speech: Speech, alone: dict[str, bytes], tmp_path: Path
) -> None:
    """Without restarts: the same command, then without torchrun, goes on and does nothing twice."""
    transcribe = [str(COMMAND), "transcribe", str(speech.run), str(speech.audio)]
    transcribe += ["--out", str(tmp_path / "texts"), *SEARCH, "--format", "json"]
    traps = {"KILL_AT": "transcribe:3", "KILL_RANK": "any", "KILL_ONCE": str(tmp_path / "died")}
    ended = run_process(torchrun(2, *transcribe), **traps)
    assert ended.returncode != 0
    assert "-9" in ended.stderr
    times = {path: path.stat().st_mtime_ns for path in (tmp_path / "texts").glob("*.json")}
    assert len(times) >= 3
    ended = run_process(transcribe)
    assert ended.returncode == 0, ended.stderr
    texts = {f"texts/{name}": data for name, data in results_of(tmp_path / "texts").items()}
    assert texts == {name: data for name, data in alone.items() if name.startswith("texts")}
    written_again = [path for path, then in times.items() if path.stat().st_mtime_ns != then]
    assert len(written_again) <= 1, "only the one that was written and not yet noted"


def test_other_commands_are_not_started_twice(tmp_path: Path) -> None:
    environment = {"WORLD_SIZE": "2", "RANK": "1"}
    ended = run_process(["-m", "arborvox", "doctor"], **environment)
    assert ended.returncode == 2
    assert "torchrun is for train, decode, transcribe, align, run" in ended.stderr


def test_nobody_can_share_standard_output(speech: Speech) -> None:
    wanted = [str(COMMAND), "transcribe", str(speech.run), str(speech.audio)]
    ended = run_process(wanted, WORLD_SIZE="2", RANK="0")
    assert ended.returncode == 2
    assert "cannot share standard output" in ended.stderr


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> TinyCorpus:
    """A corpus that trainings only read."""
    return make_corpus(tmp_path_factory.mktemp("corpus"))


@pytest.mark.slow
def test_a_killed_training_of_two_ends_with_the_bits_of_one_that_was_not(
    corpus: TinyCorpus, tmp_path: Path
) -> None:
    recipe = make_recipe(train={"max_steps": 12, "save_every": 4, "workers": 1})
    for name, traps in (
        ("whole", {}),
        ("killed", {"KILL_AT": "backward:7", "KILL_RANK": "1", "KILL_ONCE": str(tmp_path / "x")}),
    ):
        arguments = command_arguments(recipe, corpus, tmp_path / name)
        ended = run_process(torchrun(2, *arguments, restarts=1), **traps)
        assert ended.returncode == 0, ended.stderr
    assert "going on after step 4" in ended.stderr
    assert (tmp_path / "x").exists()
    whole, killed = (
        load_file(tmp_path / name / "final/model.safetensors") for name in ("whole", "killed")
    )
    assert all((whole[name] == killed[name]).all() for name in whole)
    assert step_losses(tmp_path / "whole") == step_losses(tmp_path / "killed")


@pytest.mark.slow
@pytest.mark.parametrize("processes", [3, 4])
def test_any_number_of_processes_writes_the_bytes_of_one(
    processes: int, speech: Speech, alone: dict[str, bytes], tmp_path: Path
) -> None:
    ended = run_process(torchrun(processes, *all_commands(speech, tmp_path)))
    assert ended.returncode == 0, ended.stderr
    assert results_of(tmp_path) == alone
    check_timing(tmp_path / "hyps.timing.json", processes)


@pytest.mark.slow
def test_an_experiment_is_trained_and_decoded_by_all_and_told_once(tmp_path: Path) -> None:
    """The same stages and losses as by one process; done once, it is done for any number."""
    table = write_recordings(tmp_path / "recordings")
    model = {"size": "tiny", "dropout": 0.0}
    recipe = write_recipe(tmp_path / "recipe.yaml", table, model=model)
    outs = {1: tmp_path / "one", 2: tmp_path / "two"}
    for processes, out in outs.items():
        words = [str(COMMAND), "run", str(recipe), "--out", str(out)]
        ended = run_process(words if processes == 1 else torchrun(2, *words))
        assert ended.returncode == 0, ended.stderr
        assert (out / "report/report.html").is_file()
    one, two = (
        sorted(path.relative_to(out) for path in out.rglob("stage.json")) for out in outs.values()
    )
    assert one == two
    for run in ("softmax", "huffman"):
        curves = [step_losses(out / f"runs/{run}/seed-0/train") for out in outs.values()]
        assert curves[0] == pytest.approx(curves[1], rel=1e-4)
        names = [
            [json.loads(line).get("id") for line in path.read_text().splitlines()]
            for path in (out / f"runs/{run}/seed-0/decode-free/hyps.jsonl" for out in outs.values())
        ]
        assert names[0] == names[1]
    again = run_process(torchrun(2, str(COMMAND), "run", str(recipe), "--out", str(outs[2])))
    assert again.returncode == 0, again.stderr
    assert "nothing to do" in again.stderr


@pytest.mark.slow
def test_four_processes_follow_the_loss_curve_of_one(corpus: TinyCorpus, tmp_path: Path) -> None:
    recipe = make_recipe(model={"dropout": 0.0}, train={"max_steps": 6, "save_every": 3})
    for processes, name in ((1, "one"), (4, "four")):
        words = command_arguments(recipe, corpus, tmp_path / name)
        ended = run_process(words if processes == 1 else torchrun(processes, *words))
        assert ended.returncode == 0, ended.stderr
    assert step_losses(tmp_path / "four") == pytest.approx(step_losses(tmp_path / "one"), rel=1e-4)


@pytest.mark.slow
def test_two_processes_train_from_shards_that_break(corpus: TinyCorpus, tmp_path: Path) -> None:
    """A missing shard is named by whoever meets it, counted once, and the run ends well."""
    manifests = tmp_path / "manifests"
    shutil.copytree(corpus.manifests, manifests)
    (manifests / STATS_NAME).write_text("{}")
    shutil.copyfile(manifests / "cuts_dev.jsonl.gz", manifests / "cuts_test.jsonl.gz")
    pack_manifests(manifests, 4, "shar", seed=0, jobs=1, seal=STATS_NAME, skipped=SKIPPED_NAME)
    (manifests / "shards/train/recording.000002.tar").unlink()
    recipe = make_recipe(train={"max_epochs": 1, "max_steps": None, "mixed_shards": 2})
    words = command_arguments(recipe, replace(corpus, manifests=manifests), tmp_path / "run")
    ended = run_process(torchrun(2, *words))
    assert ended.returncode == 0, ended.stderr
    assert "recording.000002.tar is missing" in ended.stderr
    skipped = (tmp_path / "run/skipped.tsv").read_text().splitlines()
    assert len(skipped) == len(set(skipped)) == 4
