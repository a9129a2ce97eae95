"""Regularization that waits for the alignment: what the first steps hear, and when it ends."""

from pathlib import Path

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

from arborvox.config import TrainConfig
from arborvox.data import Order
from arborvox.errors import ArborvoxError
from arborvox.model.dropout import Dropout, rest_dropout
from arborvox.training.evaluation import DevScore
from arborvox.training.plain_start import why_regularize
from arborvox.training.plan import at_own_speed
from arborvox.training.state import Progress

PLAIN = {"speeds": (1.0,), "frequency_masks": 0, "time_masks": 0}


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> TinyCorpus:
    """A corpus that tests only read."""
    return make_corpus(tmp_path_factory.mktemp("corpus"))


@pytest.fixture(autouse=True)
def one_thread() -> None:
    """Use as many threads as the other processes of these tests do."""
    torch.set_num_threads(1)


def scored(errors: int) -> DevScore:
    """A development set with so many errors in a hundred units."""
    return DevScore({"x": errors}, {"x": 100}, ctc=1.0, attention=0.0, unreadable=0)


def test_it_ends_when_the_error_rate_is_below_the_threshold() -> None:
    config = TrainConfig(regularize_below=0.6)
    early = Progress(step=10, plain=True)
    assert why_regularize(config, early, scored(60), total_steps=1000) is None
    assert why_regularize(config, early, scored(59), total_steps=1000) is not None


def test_it_ends_after_a_quarter_of_the_run_in_any_case() -> None:
    config = TrainConfig(regularize_below=0.6)
    for step, ends in ((249, False), (250, True)):
        reason = why_regularize(config, Progress(step=step, plain=True), scored(100), 1000)
        assert (reason is not None) == ends


def test_noises_that_are_not_there_are_missed_before_the_first_step(
    corpus: TinyCorpus, tmp_path: Path
) -> None:
    """Not when the alignment has been found, after hours."""
    empty = tmp_path / "noises"
    empty.mkdir()
    waiting = {"max_steps": 4, "regularize_below": 0.1}
    recipe = make_recipe(train=waiting, augment={**PLAIN, "noise_folder": str(empty)})
    with pytest.raises(ArborvoxError, match=r"augment\.noise_folder"):
        train_corpus(recipe, corpus, tmp_path / "run")
    assert not list((tmp_path / "run").glob("step-*"))


def test_resting_dropout_drops_nothing_and_wakes_up() -> None:
    layer = torch.nn.Sequential(Dropout(0.5)).train()
    x = torch.ones(64, 64)
    rest_dropout(layer, resting=True)
    assert torch.equal(layer(x), x)
    rest_dropout(layer, resting=False)
    assert not torch.equal(layer(x), x)


def test_plain_batches_are_the_same_rows_as_they_were_spoken() -> None:
    order = Order(epoch=1, index=2, rows=(3, 4), speeds=(0.9, 1.1), seeds=(5, 6))
    [plain] = at_own_speed([order])
    assert plain == Order(epoch=1, index=2, rows=(3, 4), speeds=(1.0, 1.0), seeds=(5, 6))


def test_first_steps_learn_what_a_run_without_regularization_learns(
    corpus: TinyCorpus, tmp_path: Path
) -> None:
    """Up to the evaluation that ends it; from then on the two part."""
    steps = {"max_steps": 8, "evaluate_every": 4, "save_every": 4, "workers": 1}
    masks = {"speeds": (1.0,), "max_time_mask": 20}
    waiting = make_recipe(train={**steps, "regularize_below": 1.0}, augment=masks)
    bare = make_recipe(train=steps, augment=PLAIN, model={"dropout": 0.0})
    at_once = make_recipe(train=steps, augment=masks)
    for name, recipe in (("waiting", waiting), ("bare", bare), ("at_once", at_once)):
        train_corpus(recipe, corpus, tmp_path / name)
    losses = {name: step_losses(tmp_path / name) for name in ("waiting", "bare", "at_once")}
    assert losses["waiting"][:4] == losses["bare"][:4]
    assert losses["waiting"][0] != losses["at_once"][0]
    assert losses["waiting"][4:] != losses["bare"][4:]


@pytest.mark.parametrize("kill_at", ["backward:3", "backward:6"])
def test_killed_before_and_after_it_ends_with_the_same_bits(
    kill_at: str, corpus: TinyCorpus, tmp_path: Path
) -> None:
    train = {"max_steps": 8, "evaluate_every": 4, "save_every": 2, "regularize_below": 1.0}
    recipe = make_recipe(train={**train, "workers": 1})
    train_corpus(recipe, corpus, tmp_path / "whole")
    killed = run_process(command_arguments(recipe, corpus, tmp_path / "broken"), KILL_AT=kill_at)
    assert killed.returncode == -9, killed.stderr
    train_corpus(recipe, corpus, tmp_path / "broken")
    assert step_losses(tmp_path / "broken") == step_losses(tmp_path / "whole")
    one, two = (tmp_path / run / "final/model.safetensors" for run in ("whole", "broken"))
    assert one.read_bytes() == two.read_bytes()
