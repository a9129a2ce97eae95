"""Laws of the loop: it learns, it leaves what it promises, and faults do not cost the run."""

import errno
import math
import os
import resource
import signal
from pathlib import Path
from typing import Any

import pytest
import torch
import typer
from tiny_corpus import TinyCorpus, make_corpus, make_recipe, step_losses, train_corpus
from torch.utils.data import Dataset
from typer.testing import CliRunner

from arborvox import train as loop
from arborvox.cli.train import register
from arborvox.config import show_recipe
from arborvox.data import UtteranceTable
from arborvox.errors import ArborvoxError
from arborvox.model.precision import choose_precision
from arborvox.training import ending, loader
from arborvox.training.evaluation import greedy_tokens
from arborvox.training.records import read_records
from arborvox.training.state import RunFolder, load_state


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> TinyCorpus:
    """A corpus that tests only read."""
    return make_corpus(tmp_path_factory.mktemp("corpus"))


@pytest.fixture(autouse=True)
def one_thread() -> None:
    """Small models are fastest so."""
    torch.set_num_threads(1)


@pytest.mark.parametrize("output", ["softmax", "hierarchical"])
def test_learns_a_small_corpus(output: str, tmp_path: Path) -> None:
    """A few seconds are enough for five tones, with either output layer."""
    corpus = make_corpus(tmp_path / "corpus", num_train=16, num_dev=4)
    recipe = make_recipe(
        output=output,
        model={"dropout": 0.0},
        augment={"speeds": [1.0], "time_masks": 0, "frequency_masks": 0},
        train={"max_steps": 150, "save_every": 50, "learning_rate": 5e-3, "batch_s": 8.0},
    )
    result = train_corpus(recipe, corpus, tmp_path / "run")
    assert result.dev is not None
    assert result.dev.error_rate is not None
    assert result.dev.error_rate < 0.2
    losses = step_losses(tmp_path / "run")
    assert losses[-1] is not None
    assert losses[0] is not None
    assert losses[-1] < 0.3 * losses[0]


def test_run_folder_holds_what_it_promises(corpus: TinyCorpus, tmp_path: Path) -> None:
    """Checkpoints among the newest or the best, one state, metrics, TensorBoard, a picture."""
    recipe = make_recipe(train={"max_steps": 9, "save_every": 1, "keep": 2, "average_best": 3})
    train_corpus(recipe, corpus, tmp_path / "run")
    run = RunFolder(tmp_path / "run")
    state = run.newest_state()
    assert state is not None
    progress, _ = load_state(state)
    kept = {path.name for path in run.checkpoints.iterdir()}
    best = {f"step-{e.step:06d}" for e in progress.best(3)}
    assert kept == best | {"step-000008", "step-000009"}
    assert [path.name for path in run.states.iterdir()] == ["step-000009"]
    records = read_records(run.metrics)
    assert [r["step"] for r in records if r["kind"] == "train"] == list(range(1, 10))
    dev = [r for r in records if r["kind"] == "dev"]
    assert len(dev) == 9
    assert set(dev[0]["by_language"]) == {"x-a", "x-b"}
    assert run.curves.read_bytes().startswith(b"\x89PNG")
    assert list(run.tensorboard.glob("events*"))
    assert not [p for p in run.root.rglob(".*") if p.name.endswith(".part")]


def test_patience_ends_a_run(corpus: TinyCorpus, tmp_path: Path) -> None:
    """Without progress for `patience` evaluations there is an end before max_steps."""
    # A learning rate of almost nothing: no evaluation beats the first.
    recipe = make_recipe(
        train={"max_steps": 50, "save_every": 1, "patience": 3, "learning_rate": 1e-12}
    )
    assert train_corpus(recipe, corpus, tmp_path / "run").progress.step == 4


def test_epochs_end_a_run(corpus: TinyCorpus, tmp_path: Path) -> None:
    """Without max_steps, every utterance is heard max_epochs times."""
    recipe = make_recipe(train={"max_steps": None, "max_epochs": 2}, augment={"speeds": [1.0]})
    result = train_corpus(recipe, corpus, tmp_path / "run")
    table = UtteranceTable(tmp_path / "run/data/train")
    assert result.progress.audio_s == pytest.approx(2 * table.duration_s, rel=0.02)


def test_step_is_the_gradient_of_the_whole_group(corpus: TinyCorpus, tmp_path: Path) -> None:
    """Three small batches, accumulated, are one large batch: the same loss each step."""
    losses = []
    for batch_s, accumulate in ((1000.0, 1), (7.0, 3)):  # the corpus is one batch, or three
        recipe = make_recipe(
            model={"dropout": 0.0},
            augment={"speeds": [1.0], "time_masks": 0, "frequency_masks": 0},
            train={"batch_s": batch_s, "accumulate": accumulate, "max_steps": 3},
        )
        train_corpus(recipe, corpus, tmp_path / f"{accumulate}")
        losses.append(step_losses(tmp_path / f"{accumulate}"))
    assert losses[0] == pytest.approx(losses[1], rel=1e-4)


def poison(monkeypatch: pytest.MonkeyPatch, bad_calls: set[int]) -> None:
    """Make the model's loss NaN in some of its training calls."""
    forward = loop.ASR.forward
    calls = []

    def sick_forward(self: Any, *arguments: Any) -> Any:
        losses = forward(self, *arguments)
        calls.append(1)
        if len(calls) in bad_calls:
            object.__setattr__(losses, "total", losses.total * math.nan)
        return losses

    monkeypatch.setattr(loop.ASR, "forward", sick_forward)


def test_nan_loss_costs_its_step_only(
    corpus: TinyCorpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The step is skipped and counted; the weights stay finite and training goes on."""
    poison(monkeypatch, {3, 4})
    result = train_corpus(make_recipe(train={"max_steps": 6}), corpus, tmp_path / "run")
    assert result.progress.bad_steps == 2
    losses = step_losses(tmp_path / "run")
    assert [loss is None for loss in losses] == [False, False, True, True, False, False]


def test_nan_for_ever_stops_with_a_usable_checkpoint(
    corpus: TinyCorpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After too many bad steps in a row: a sentence, and finite weights on disk."""
    monkeypatch.setattr(ending, "MAX_BAD_STEPS_IN_A_ROW", 3)
    poison(monkeypatch, set(range(4, 1000)))
    with pytest.raises(ArborvoxError, match=r"3 steps in a row.*step-000006"):
        train_corpus(make_recipe(train={"max_steps": 50}), corpus, tmp_path / "run")
    weights = loop.load_weights(tmp_path / "run/checkpoints/step-000006")
    assert all(torch.isfinite(value).all() for value in weights.values())


def test_full_disk_keeps_the_previous_checkpoint(corpus: TinyCorpus, tmp_path: Path) -> None:
    """Where a file cannot grow, saving says so; what was saved before can be gone on from."""
    run = tmp_path / "run"
    train_corpus(make_recipe(train={"max_steps": 5}), corpus, run)
    before = (run / "checkpoints/step-000005/model.safetensors").read_bytes()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, hard))  # smaller than the model
    try:
        with pytest.raises(ArborvoxError, match=r"the disk is full; step-000005 is intact"):
            train_corpus(make_recipe(train={"max_steps": 20}), corpus, run)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert (run / "checkpoints/step-000005/model.safetensors").read_bytes() == before
    assert train_corpus(make_recipe(train={"max_steps": 11}), corpus, run).progress.step == 11


def test_disk_full_error_number_is_understood(tmp_path: Path) -> None:
    """The system's own word for a full disk leads to the same sentence."""
    with (
        pytest.raises(ArborvoxError, match="the disk is full; nothing had been saved"),
        loop.explain_full_disk(RunFolder(tmp_path)),
    ):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


class KilledBatches(Dataset[bytes]):
    """What a worker dies of."""

    def __init__(self, reader: object) -> None:
        """Nothing of the reader is needed."""

    def __getitem__(self, order: object) -> bytes:
        os.kill(os.getpid(), signal.SIGKILL)
        return b""


def test_killed_worker_is_told_in_a_sentence(
    corpus: TinyCorpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As by the system when memory runs out: what was saved before can be gone on from."""
    run = tmp_path / "run"
    train_corpus(make_recipe(train={"max_steps": 5, "workers": 1}), corpus, run)
    with monkeypatch.context() as patch:
        patch.setattr(loader, "_PackedBatches", KilledBatches)
        with pytest.raises(ArborvoxError, match="process that reads audio was killed"):
            train_corpus(make_recipe(train={"max_steps": 9, "workers": 1}), corpus, run)
    recipe = make_recipe(train={"max_steps": 9, "workers": 1})
    assert train_corpus(recipe, corpus, run).progress.step == 9


def test_too_long_utterances_are_left_out(corpus: TinyCorpus, tmp_path: Path) -> None:
    """They are counted and listed; the others train."""
    recipe = make_recipe(train={"max_duration_s": 0.6, "max_steps": 2})
    train_corpus(recipe, corpus, tmp_path / "run")
    listed = (tmp_path / "run/data/train/skipped.tsv").read_text()
    assert "longer than 0.6 s" in listed


def test_labels_longer_than_frames_are_counted(corpus: TinyCorpus, tmp_path: Path) -> None:
    """Sped up tenfold, labels no longer fit: counted, and the loss stays finite."""
    recipe = make_recipe(augment={"speeds": [10.0]}, train={"max_steps": 2})
    result = train_corpus(recipe, corpus, tmp_path / "run")
    assert result.progress.infeasible > 0
    assert result.progress.bad_steps == 0


def test_empty_dev_set_is_judged_by_training_loss(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """No development set: a warning, evaluations by loss, and a final model all the same."""
    corpus = make_corpus(tmp_path / "corpus", num_dev=0)
    result = train_corpus(make_recipe(train={"max_steps": 6}), corpus, tmp_path / "run")
    assert "no development set" in capsys.readouterr().err
    assert result.dev is None
    losses = [loss for loss in step_losses(tmp_path / "run") if loss is not None]
    assert result.progress.evaluations[0].score == pytest.approx(sum(losses[:5]) / 5)
    assert (tmp_path / "run/final/model.safetensors").exists()


def test_audio_that_vanishes_costs_its_utterance_only(tmp_path: Path) -> None:
    """Files lost between two parts of a run are left out, counted and listed."""
    corpus = make_corpus(tmp_path / "corpus")
    train_corpus(make_recipe(train={"max_steps": 2}), corpus, tmp_path / "run")
    (corpus.audio / "train-003.wav").unlink()
    result = train_corpus(make_recipe(train={"max_steps": 12}), corpus, tmp_path / "run")
    assert result.progress.step == 12
    assert result.progress.unreadable > 0
    assert "train-003\t" in (tmp_path / "run/skipped.tsv").read_text()


def test_missing_dev_audio_is_counted(tmp_path: Path) -> None:
    """The score is that of the others, and says how many were left out."""
    corpus = make_corpus(tmp_path / "corpus")
    (corpus.audio / "dev-002.wav").unlink()
    result = train_corpus(make_recipe(train={"max_steps": 1}), corpus, tmp_path / "run")
    assert result.dev is not None
    assert result.dev.unreadable == 1
    assert "1 utterances unreadable" in str(result.dev)


def test_unwritable_cache_is_said(
    corpus: TinyCorpus, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A cache that cannot be written costs time, not the run, and not silently."""
    (tmp_path / "cache").write_text("a file where the folder should be")
    recipe = make_recipe(features={"cache": str(tmp_path / "cache")}, train={"max_steps": 2})
    train_corpus(recipe, corpus, tmp_path / "run")
    assert "cannot be cached" in capsys.readouterr().err


def test_warm_start_begins_where_another_run_ended(corpus: TinyCorpus, tmp_path: Path) -> None:
    """`init_from` takes the model over: the first loss is near the other run's last."""
    quiet = {"speeds": [1.0], "time_masks": 0, "frequency_masks": 0}
    first = make_recipe(
        augment=quiet, model={"dropout": 0.0}, train={"max_steps": 40, "average_best": 1}
    )
    train_corpus(first, corpus, tmp_path / "first")
    second = make_recipe(
        augment=quiet,
        model={"dropout": 0.0},
        train={"max_steps": 1, "init_from": str(tmp_path / "first")},
    )
    train_corpus(second, corpus, tmp_path / "second")
    fresh, taken = step_losses(tmp_path / "first"), step_losses(tmp_path / "second")
    assert fresh[0] is not None
    assert taken[0] is not None
    assert taken[0] < 0.7 * fresh[0]


def test_damaged_checkpoint_is_named(corpus: TinyCorpus, tmp_path: Path) -> None:
    """Going on from a torn model is an error that says which file."""
    train_corpus(make_recipe(train={"max_steps": 2}), corpus, tmp_path / "run")
    weights = tmp_path / "run/checkpoints/step-000002/model.safetensors"
    weights.write_bytes(weights.read_bytes()[:1000])
    with pytest.raises(ArborvoxError, match=r"step-000002/model.safetensors is damaged"):
        train_corpus(make_recipe(train={"max_steps": 4}), corpus, tmp_path / "run")


def test_no_audio_at_all_stops_with_a_sentence(tmp_path: Path) -> None:
    """A corpus whose folder is gone ends the run instead of spinning."""
    corpus = make_corpus(tmp_path / "corpus")
    train_corpus(make_recipe(train={"max_steps": 2}), corpus, tmp_path / "run")
    for path in corpus.audio.glob("train-*"):
        path.unlink()
    with pytest.raises(ArborvoxError, match="no readable audio"):
        train_corpus(make_recipe(train={"max_steps": 100}), corpus, tmp_path / "run")
    with pytest.raises(ArborvoxError, match="No training recording can be read"):
        train_corpus(make_recipe(train={"max_steps": 100}), corpus, tmp_path / "other")


def test_ctrl_c_saves_and_exits_with_130(
    corpus: TinyCorpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The step is finished, everything saved, and the same command goes on."""
    step = loop.Trainer._step

    def interrupted_step(self: Any, group: Any) -> Any:
        measured = step(self, group)
        if self.progress.step == 3:
            os.kill(os.getpid(), signal.SIGINT)
        return measured

    recipe = make_recipe(train={"max_steps": 6, "workers": 1})
    path = tmp_path / "recipe.yaml"
    path.write_text(show_recipe(recipe))
    app = typer.Typer()
    app.callback()(lambda: None)
    register(app)
    words = ["train", str(path), f"--out={tmp_path / 'run'}", f"--manifests={corpus.manifests}"]
    words += [f"--tokens={corpus.tokens}", f"--tree={corpus.tree}"]
    with monkeypatch.context() as patch:
        patch.setattr(loop.Trainer, "_step", interrupted_step)
        assert CliRunner().invoke(app, words).exit_code == 130
    assert [p.name for p in (tmp_path / "run/state").iterdir()] == ["step-000003"]
    assert not (tmp_path / "run/final").exists()
    assert CliRunner().invoke(app, words).exit_code == 0
    train_corpus(recipe, corpus, tmp_path / "whole")
    assert step_losses(tmp_path / "run") == step_losses(tmp_path / "whole")
    one, two = (tmp_path / name / "final/model.safetensors" for name in ("run", "whole"))
    assert one.read_bytes() == two.read_bytes()


def test_greedy_ctc_merges_repeats_and_drops_blanks() -> None:
    """a a - a b b - reads a a b; frames beyond the length are not read."""
    labels = torch.tensor([[0, 0, 2, 0, 1, 1, 2, 1]])
    log_probs = torch.nn.functional.one_hot(labels, 3).float()
    assert greedy_tokens(log_probs, torch.tensor([7])) == [[0, 0, 1]]
    assert greedy_tokens(log_probs, torch.tensor([8])) == [[0, 0, 1, 1]]


def test_precision_is_a_rule() -> None:
    """What the recipe says wins; small models stay in fp32; the answer never varies."""
    cpu = torch.device("cpu")
    assert choose_precision("bf16", cpu, 32) == "bf16"
    assert choose_precision("fp32", cpu, 512) == "fp32"
    assert choose_precision("auto", cpu, 32) == "fp32"
    assert choose_precision("auto", cpu, 256) == choose_precision("auto", cpu, 256)
