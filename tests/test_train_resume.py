"""The law of exact resume: a run that was killed ends with the weights of one that was not."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from tiny_corpus import (
    TinyCorpus,
    command_arguments,
    make_corpus,
    make_recipe,
    run_process,
    step_losses,
    train_corpus,
)

from arborvox.errors import ArborvoxError
from arborvox.tokens import Tokenizer
from arborvox.train import Trainer
from arborvox.train import train as run_training
from arborvox.training.loader import CAN_SEE_SENDERS
from arborvox.training.records import Records, read_records
from arborvox.training.state import Evaluation, Progress, RunFolder, differing_keys


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> TinyCorpus:
    """A corpus that tests only read."""
    return make_corpus(tmp_path_factory.mktemp("corpus"))


@pytest.fixture(autouse=True)
def one_thread() -> None:
    """Use as many threads as the other processes of these tests do."""
    torch.set_num_threads(1)


@pytest.mark.parametrize(
    ("output", "kill_at"), [("hierarchical", "backward:8"), ("softmax", "state:10")]
)
def test_killed_run_ends_with_the_same_bits(
    output: str, kill_at: str, corpus: TinyCorpus, tmp_path: Path
) -> None:
    """kill -9 in a step or in the middle of saving; mid-epoch, with accumulation and a worker."""
    recipe = make_recipe(
        output=output,
        train={"accumulate": 2, "workers": 1, "max_steps": 14, "language_temperature": 2.0},
    )
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    train_corpus(recipe, corpus, whole)
    killed = run_process(command_arguments(recipe, corpus, broken), KILL_AT=kill_at)
    assert killed.returncode == -9, killed.stderr
    assert not (broken / "final").exists()
    train_corpus(recipe, corpus, broken)
    assert step_losses(broken) == step_losses(whole)
    models = [f"checkpoints/step-{step:06d}" for step in (10, 14)] + ["final"]
    for model in models:
        one, two = ((run / model / "model.safetensors").read_bytes() for run in (whole, broken))
        assert one == two, model


def test_a_second_process_is_kept_out(corpus: TinyCorpus, tmp_path: Path) -> None:
    """It is told so in one sentence, and the first ends as if it had been alone."""
    recipe = make_recipe(train={"max_steps": 4})
    train_corpus(recipe, corpus, tmp_path / "alone")
    arguments = command_arguments(recipe, corpus, tmp_path / "run")
    first = run_process(arguments, KILL_AT="second:2")
    assert first.returncode == 0, first.stderr
    assert "second: 2 error: Another `arborvox train` is at work in" in first.stderr
    one, two = (tmp_path / run / "final/model.safetensors" for run in ("alone", "run"))
    assert one.read_bytes() == two.read_bytes()
    assert "seed: 0" in (tmp_path / "run/config.yaml").read_text()


def test_the_end_is_told_once(corpus: TinyCorpus, tmp_path: Path) -> None:
    """Killed after the last line of the metrics, or simply run again: no line comes twice."""
    recipe = make_recipe(train={"max_steps": 4, "save_every": 2, "evaluate_every": 3})
    arguments = command_arguments(recipe, corpus, tmp_path / "run")
    killed = run_process(arguments, KILL_AT="final:1")
    assert killed.returncode == -9, killed.stderr
    for _ in range(2):
        train_corpus(recipe, corpus, tmp_path / "run")
        lines = [(r["kind"], r["step"]) for r in read_records(tmp_path / "run/metrics.jsonl")]
        assert lines.count(("final", 4)) == 1
        assert len(lines) == len(set(lines)), lines


def test_an_evaluation_that_the_state_does_not_know_is_told_once(tmp_path: Path) -> None:
    run = RunFolder(tmp_path)
    lines = [{"kind": "train", "step": 4}, {"kind": "dev", "step": 3}, {"kind": "dev", "step": 4}]
    run.metrics.write_text("".join(json.dumps(line) + "\n" for line in lines))
    Records(run, Progress(step=4, evaluations=[Evaluation(3, 0.5)])).close()
    assert read_records(run.metrics) == lines[:2]


def test_broken_weights_are_never_published(
    corpus: TinyCorpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A finite gradient can still lead to weights that are not."""
    recipe = make_recipe(train={"max_steps": 4, "save_every": 2})
    run = tmp_path / "run"

    def diverge(self: Trainer, group: list[Any]) -> Any:
        measured = take_step(self, group)
        if self.progress.step == 3:
            with torch.no_grad():
                next(self.model.parameters()).fill_(torch.nan)
        return measured

    take_step = Trainer._step
    monkeypatch.setattr(Trainer, "_step", diverge)
    with pytest.raises(ArborvoxError, match=r"after step 4 .*NaN.*step-000002 was the last good"):
        train_corpus(recipe, corpus, run)
    assert not (run / "final").exists()
    assert [path.name for path in (run / "checkpoints").iterdir()] == ["step-000002"]


@pytest.mark.skipif(not CAN_SEE_SENDERS, reason="this system does not tell who sent a signal")
def test_sigterm_to_all_processes_saves_like_ctrl_c(corpus: TinyCorpus, tmp_path: Path) -> None:
    """A cluster's way to end a job: the processes that read must not die before the step ends."""
    recipe = make_recipe(train={"workers": 2, "max_steps": 40})
    arguments = command_arguments(recipe, corpus, tmp_path / "run")
    stopped = run_process(arguments, KILL_AT="group:3")
    assert stopped.returncode == 130, stopped.stderr
    assert [folder.name for folder in (tmp_path / "run/state").iterdir()] == ["step-000003"]
    assert "killed" not in stopped.stderr


def test_failed_process_ends(corpus: TinyCorpus, tmp_path: Path) -> None:
    """An error in mid-run ends the process: no worker keeps it waiting."""
    recipe = make_recipe(train={"workers": 2})
    arguments = command_arguments(recipe, corpus, tmp_path / "run")
    failed = run_process(arguments, KILL_AT="error:3")
    assert failed.returncode == 1
    assert "a fault" in failed.stderr


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_stopping_and_going_on_is_exact_in_one_process(
    precision: str, corpus: TinyCorpus, tmp_path: Path
) -> None:
    """A run lengthened by its recipe equals one that was long from the start."""
    model = {"middle_ctc": 0.3, "dropout": 0.1}
    long = make_recipe(train={"max_steps": 12, "precision": precision}, model=model)
    short = make_recipe(train={"max_steps": 7, "precision": precision}, model=model)
    train_corpus(long, corpus, tmp_path / "long")
    train_corpus(short, corpus, tmp_path / "two")
    train_corpus(long, corpus, tmp_path / "two")
    assert step_losses(tmp_path / "two") == step_losses(tmp_path / "long")
    last = "checkpoints/step-000012/model.safetensors"
    assert (tmp_path / "two" / last).read_bytes() == (tmp_path / "long" / last).read_bytes()


def test_another_recipe_is_refused_with_its_keys(corpus: TinyCorpus, tmp_path: Path) -> None:
    """A folder belongs to its recipe; the message names what differs, and only that."""
    train_corpus(make_recipe(train={"max_steps": 2}), corpus, tmp_path / "run")
    other = make_recipe(train={"max_steps": 9, "clip": 1.0}, model={"dropout": 0.2})
    with pytest.raises(ArborvoxError, match=r"model\.dropout, train\.clip differ"):
        train_corpus(other, corpus, tmp_path / "run")


def test_before_the_first_save_a_mistake_may_be_mended(corpus: TinyCorpus, tmp_path: Path) -> None:
    wrong = make_recipe(train={"max_steps": 2, "init_from": str(tmp_path / "nowhere")})
    with pytest.raises(ArborvoxError, match="nowhere"):
        train_corpus(wrong, corpus, tmp_path / "run")
    right = make_recipe(train={"max_steps": 2}, model={"dropout": 0.2})
    assert train_corpus(right, corpus, tmp_path / "run").progress.step == 2


@pytest.mark.parametrize(
    ("limits", "less"),
    [({"max_steps": 4}, {"max_steps": 2}), ({"max_epochs": 2}, {"max_epochs": 1})],
)
def test_a_run_is_not_shortened_afterwards(
    limits: dict[str, int], less: dict[str, int], corpus: TinyCorpus, tmp_path: Path
) -> None:
    base = {"max_steps": None, "save_every": 2}
    train_corpus(make_recipe(train={**base, **limits}), corpus, tmp_path / "run")
    train_corpus(make_recipe(train={**base, **limits}), corpus, tmp_path / "run")
    with pytest.raises(ArborvoxError, match="further than"):
        train_corpus(make_recipe(train={**base, **less}), corpus, tmp_path / "run")


def test_patience_that_would_have_ended_a_run_is_noticed() -> None:
    scores = [0.9, 0.8, 0.85, 0.81, 0.7, 0.71]
    progress = Progress(step=6, evaluations=[Evaluation(n, s) for n, s in enumerate(scores)])
    assert progress.evaluations_without_gain == 1
    limits = {"max_steps": 6}
    assert progress.outgrew(make_recipe(train={**limits, "patience": 2}).train)
    assert not progress.outgrew(make_recipe(train={**limits, "patience": 3}).train)


def test_what_training_does_not_read_may_change() -> None:
    one, two = make_recipe(), make_recipe()
    other = two.model_copy(update={"name": "other", "tokens": two.tokens.model_copy()})
    assert differing_keys(one, other) == []


def test_end_of_a_cosine_is_part_of_the_recipe() -> None:
    """Elsewhere a run may be lengthened; a cosine's shape depends on its end."""
    for schedule, keys in (("warmup", []), ("cosine", ["train.max_steps"])):
        one = make_recipe(train={"schedule": schedule, "max_steps": 5})
        two = make_recipe(train={"schedule": schedule, "max_steps": 6, "workers": 0})
        assert differing_keys(one, two) == keys


def test_other_manifests_are_refused(corpus: TinyCorpus, tmp_path: Path) -> None:
    """Going on with other data is an error, not another result."""
    recipe = make_recipe(train={"max_steps": 2})
    train_corpus(recipe, corpus, tmp_path / "run")
    other = make_corpus(tmp_path / "other", seed=1)
    with pytest.raises(ArborvoxError, match=r"another cuts_train.jsonl.gz"):
        train_corpus(recipe, other, tmp_path / "run")


def test_tokens_of_another_language_are_refused(corpus: TinyCorpus, tmp_path: Path) -> None:
    units = ("<eos>", "<unk>", "ǂ", "ǃ")
    Tokenizer(unit="phone", units=units, counts={"x-x": (1, 1, 1, 1)}).save(
        tmp_path / "tokens.json"
    )
    for _ in range(2):  # what the first attempt left behind does not help the second
        with pytest.raises(ArborvoxError, match="100% of the units"):
            run_training(
                make_recipe(output="softmax"),
                out=tmp_path / "run",
                manifests=corpus.manifests,
                tokens=tmp_path / "tokens.json",
                tree=None,
            )


def test_finished_run_only_repeats_its_end(corpus: TinyCorpus, tmp_path: Path) -> None:
    """Running the same command again changes nothing."""
    recipe = make_recipe(train={"max_steps": 3})
    train_corpus(recipe, corpus, tmp_path / "run")
    before = (tmp_path / "run/final/model.safetensors").read_bytes()
    losses = step_losses(tmp_path / "run")
    assert train_corpus(recipe, corpus, tmp_path / "run").progress.step == 3
    assert (tmp_path / "run/final/model.safetensors").read_bytes() == before
    assert step_losses(tmp_path / "run") == losses
