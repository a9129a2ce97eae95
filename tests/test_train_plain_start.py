"""Regularization that waits for the alignment: what the first steps hear, and when it ends."""

import json
import math
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

import arborvox.data
import arborvox.train
from arborvox.config import Recipe, TrainConfig
from arborvox.data import Order
from arborvox.errors import ArborvoxError
from arborvox.features import LogMel
from arborvox.model.asr import ASR
from arborvox.model.checkpoint import load_weights
from arborvox.model.dropout import Dropout, rest_dropout
from arborvox.training import plain_start
from arborvox.training.evaluation import DevScore
from arborvox.training.plain_start import is_astray, set_plain, why_regularize
from arborvox.training.plan import at_own_speed
from arborvox.training.preparation import prepare_data
from arborvox.training.ranks import Ranks
from arborvox.training.state import Evaluation, Progress, RunFolder, load_progress
from arborvox.tree import HuffmanTree

PLAIN = {"speeds": (1.0,), "frequency_masks": 0, "time_masks": 0}
ONE_RANK = Ranks(rank=0, world=1, device=torch.device("cpu"))
CTC_ALONE = {"decoder": "none", "decoder_layers": 0, "ctc_weight": 1.0}


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


@pytest.mark.parametrize(
    ("errors", "total_steps", "last"),
    [
        (80, 4000, 1000),  # a quarter
        (80, 1200, 500),  # what a beginning takes
        (80, 600, 300),  # half
        (100, 4000, 2000),  # blanks alone: half of any run
        (100, 600, 300),
    ],
)
def test_an_alignment_is_not_waited_for_without_end(
    errors: int, total_steps: int, last: int
) -> None:
    config = TrainConfig(regularize_below=0.6)
    for step, ends in ((last - 1, False), (last, True)):
        progress = Progress(step=step, plain=True)
        reason = why_regularize(config, progress, scored(errors), total_steps)
        assert (reason is not None) == ends


ASTRAY = (96, 73, 74, 89, 93, 76)


@pytest.mark.parametrize(
    ("rates", "began", "plain", "total_steps", "astray"),
    [
        (ASTRAY, 0, True, 6000, True),
        (ASTRAY[:5], 0, True, 6000, False),  # too early to say
        (ASTRAY, 0, True, 5900, False),  # too late to begin again
        (ASTRAY, 0, False, 6000, False),  # the alignment was found before
        ((96, 73, 74, 89, 93, 72), 0, True, 6000, False),  # still getting better
        ((100, 100, 100, 100, 100, 100), 0, True, 6000, False),  # blanks may still be left
        ((96, 60, 62, 64, 63, 62), 0, True, 6000, False),  # slow, but on the way
        ((*ASTRAY, 95, 70, 71), 600, True, 20000, False),  # the new weights have their time, too
        ((*ASTRAY, *ASTRAY), 600, True, 20000, True),
    ],
)
def test_a_beginning_is_astray_that_writes_the_wrong_thing_and_gets_no_better(
    rates: tuple[int, ...], began: int, plain: bool, total_steps: int, astray: bool
) -> None:
    looks = [Evaluation(100 * n, rate / 100) for n, rate in enumerate(rates, start=1)]
    progress = Progress(step=100 * len(rates), plain=plain, began=began, evaluations=looks)
    assert is_astray(progress, total_steps) == astray


def test_weights_drawn_anew_are_warmed_up_saved_and_gone_on_with(
    corpus: TinyCorpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Astray at the fourth step; stopped there and gone on with, the bits are the same."""

    def at_four(progress: Progress, total_steps: int) -> bool:
        return progress.step == 4 and progress.plain

    monkeypatch.setattr(arborvox.train, "is_astray", at_four)
    for share in ("MOST_PLAIN", "MOST_PLAIN_WHILE_BLANK"):
        monkeypatch.setattr(plain_start, share, 2.0)  # never, in so few steps
    settings = {"evaluate_every": 2, "save_every": 2, "regularize_below": 0.01, "workers": 0}
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    for out, ends in ((whole, (8,)), (broken, (4, 8))):
        for max_steps in ends:
            recipe = make_recipe(train={**settings, "max_steps": max_steps, "keep": 9})
            train_corpus(recipe, corpus, out)
    progress = load_progress(whole / "state/step-000008")
    assert progress.began == 4
    assert [look.step for look in progress.evaluations if look.score == math.inf] == [4]
    before, drawn = (load_weights(whole / f"checkpoints/step-00000{step}") for step in (2, 4))
    assert any(not torch.equal(before[name], drawn[name]) for name in drawn)
    records = [json.loads(line) for line in (whole / "metrics.jsonl").read_text().splitlines()]
    rates = [record["learning_rate"] for record in records if record["kind"] == "train"]
    assert rates[4:] == rates[:4] and rates[0] < rates[1]
    assert step_losses(broken) == step_losses(whole)
    one, two = (run / "final/model.safetensors" for run in (whole, broken))
    assert one.read_bytes() == two.read_bytes()


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


def gradients(recipe: Recipe, *, apart: bool) -> dict[str, torch.Tensor]:
    """Gradients of a fresh model's loss of one batch, by names of parameters."""
    torch.manual_seed(1)
    model = ASR(recipe.model, recipe.features, 8, HuffmanTree.from_counts(range(1, 9))).eval()
    model.decoder_apart = apart
    features = torch.randn(2, 60, recipe.features.num_mels, generator=torch.manual_seed(2))
    tokens = torch.tensor([[3, 4, 5], [6, 7, -1]])
    model(features, torch.tensor([60, 50]), tokens, torch.tensor([3, 2])).total.backward()
    return {
        name: parameter.grad
        for name, parameter in model.named_parameters()
        if parameter.grad is not None
    }


def test_a_decoder_apart_learns_but_does_not_teach_the_encoder() -> None:
    recipe = make_recipe(model={"ctc_weight": 0.5})
    apart, together = (gradients(recipe, apart=apart) for apart in (True, False))
    assert apart.keys() == together.keys()  # ranks exchange them all
    decoder = [name for name in apart if name.startswith(("decoder.", "output."))]
    encoder = [name for name in apart if name.startswith("encoder.")]
    assert decoder and encoder
    for name in decoder:
        assert torch.equal(apart[name], together[name])
    assert any(not torch.equal(apart[name], together[name]) for name in encoder)
    ctc_alone = gradients(make_recipe(model=CTC_ALONE), apart=False)
    for name in encoder:
        assert torch.allclose(apart[name], 0.5 * ctc_alone[name], atol=1e-6)


def test_a_decoder_waits_with_dropout_and_comes_in_with_it() -> None:
    recipe = make_recipe()
    model = ASR(recipe.model, recipe.features, 8, HuffmanTree.from_counts(range(1, 9)))
    for plain in (True, False):
        set_plain(model, plain=plain)
        resting = {layer.resting for layer in model.modules() if isinstance(layer, Dropout)}
        assert (model.decoder_apart, resting) == (plain, {plain})


def test_plain_batches_are_the_same_rows_as_they_were_spoken() -> None:
    order = Order(epoch=1, index=2, rows=(3, 4), speeds=(0.9, 1.1), seeds=(5, 6))
    [plain] = at_own_speed([order])
    assert plain == Order(epoch=1, index=2, rows=(3, 4), speeds=(1.0, 1.0), seeds=(5, 6))


@pytest.mark.parametrize("loudness", [True, False])
def test_plain_batches_have_no_pauses_where_frames_tell_loudness(
    loudness: bool, corpus: TinyCorpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Masked batches and the development set keep them."""
    monkeypatch.setattr(LogMel, "tells_loudness", loudness)
    # The corpus is of tones without pauses: every second frame stands for one.
    monkeypatch.setattr(arborvox.data, "leave_out_pauses", lambda frames, *_: frames[::2])
    recipe = make_recipe(augment=PLAIN)
    run = RunFolder(tmp_path / "run")
    run.root.mkdir()
    data = prepare_data(run, recipe, corpus.manifests, corpus.tokens, ONE_RANK)
    order = Order(epoch=0, index=0, rows=(0, 1, 2), speeds=(1.0,) * 3, seeds=(0,) * 3)
    whole = data.training_reader(recipe.augment).read(order).feature_lens
    plain = data.training_reader(None).read(order).feature_lens
    assert plain.tolist() == (whole if not loudness else (whole + 1) // 2).tolist()
    assert data.dev_reader().pauses


def test_first_steps_learn_what_a_run_without_regularization_learns(
    corpus: TinyCorpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Up to the evaluation that ends it; from then on the two part."""
    monkeypatch.setattr(LogMel, "tells_loudness", False)  # pauses have a test of their own
    steps = {"max_steps": 8, "evaluate_every": 4, "save_every": 4, "workers": 0}
    masks = {"speeds": (1.0,), "max_time_mask": 20}
    waiting = make_recipe(train={**steps, "regularize_below": 1.0}, augment=masks, model=CTC_ALONE)
    bare = make_recipe(train=steps, augment=PLAIN, model={**CTC_ALONE, "dropout": 0.0})
    at_once = make_recipe(train=steps, augment=masks, model=CTC_ALONE)
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
