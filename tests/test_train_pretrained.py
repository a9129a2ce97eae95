"""Training on pretrained encoders: frozen on cached states, or learning; exact after a stop."""

import shutil
import signal
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from tiny_corpus import (
    TinyCorpus,
    command_arguments,
    make_corpus,
    make_recipe,
    train_corpus,
)

pytest.importorskip("transformers")

from tiny_pretrained import MODELS, save_model

from arborvox.cli import main
from arborvox.config import DecodeConfig, Recipe
from arborvox.decode.searches import SEARCHES
from arborvox.errors import ArborvoxError
from arborvox.model.asr import ASR
from arborvox.model.checkpoint import FROZEN, load_checkpoint, load_weights
from arborvox.recognizer import load
from arborvox.training import states as states_module


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> TinyCorpus:
    """A corpus that tests only read."""
    return make_corpus(tmp_path_factory.mktemp("corpus"), num_train=8, num_dev=2)


def recipe_on(folder: Path, *, steps: int = 4, cache: Path | None = None, **keys: Any) -> Recipe:
    """Return a recipe for a tiny pretrained encoder."""
    train = keys.pop("train", {})
    return make_recipe(
        model={"encoder": "pretrained", "pretrained": str(folder), "encoder_layers": 1, **keys},
        train={"max_steps": steps, "save_every": 2, "workers": 0, **train},
        augment={"speeds": [0.9, 1.0]},
        features={} if cache is None else {"cache": str(cache)},
    )


def weights_of(run: Path, step: int) -> dict[str, torch.Tensor]:
    """Return the weights that a run had after a step."""
    return load_weights(run / "checkpoints" / f"step-{step:06d}")


def assert_same(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> None:
    assert one.keys() == other.keys()
    for name, tensor in one.items():
        assert torch.equal(tensor, other[name]), name


@pytest.mark.parametrize(
    ("name", "silence"), [*((name, "none") for name in MODELS), ("whisper", "as-taught")]
)
def test_frozen_encoder_trains_resumes_and_decodes(
    corpus: TinyCorpus, tmp_path: Path, name: str, silence: str
) -> None:
    folder = save_model(name, tmp_path / "base")
    short, whole = (recipe_on(folder, steps=steps, silence=silence) for steps in (2, 4))
    train_corpus(whole, corpus, tmp_path / "whole")
    train_corpus(short, corpus, tmp_path / "halves")
    before = weights_of(tmp_path / "halves", 2)
    folder.rename(tmp_path / "gone")  # what a run has begun with is in its checkpoints
    train_corpus(whole, corpus, tmp_path / "halves")
    after = weights_of(tmp_path / "whole", 4)
    assert_same(weights_of(tmp_path / "halves", 4), after)
    for tensor in after:
        frozen = tensor.startswith("encoder.network.")
        assert torch.equal(before[tensor], after[tensor]) == frozen, tensor
    recording = next(corpus.audio.glob("dev-*.wav"))
    for mode in SEARCHES:
        transcript = load(tmp_path / "whole", DecodeConfig(mode=mode)).transcribe(recording)
        assert transcript.duration_s > 0


@pytest.mark.parametrize(
    ("name", "precision", "silence"),
    [
        ("whisper", "fp32", "none"),
        ("whisper", "bf16", "as-taught"),
        ("wavlm", "fp32", "none"),
        ("w2v-bert", "fp32", "none"),
    ],
)
def test_fine_tuning_is_exact_after_a_stop(
    corpus: TinyCorpus, tmp_path: Path, name: str, precision: str, silence: str
) -> None:
    """The encoder rests, then learns at its own rate; layers are dropped and computed twice."""
    folder = save_model(name, tmp_path / "base")
    keys: dict[str, Any] = {
        "freeze": 1,
        "silence": silence,
        "layer_drop": 0.3,
        "gradient_checkpointing": True,
        "train": {"freeze_steps": 2, "encoder_learning_rate": 1e-4, "precision": precision},
    }
    train_corpus(recipe_on(folder, steps=4, **keys), corpus, tmp_path / "whole")
    train_corpus(recipe_on(folder, steps=2, **keys), corpus, tmp_path / "halves")
    train_corpus(recipe_on(folder, steps=4, **keys), corpus, tmp_path / "halves")
    first, last = weights_of(tmp_path / "whole", 2), weights_of(tmp_path / "whole", 4)
    assert_same(weights_of(tmp_path / "halves", 4), last)
    recipe = recipe_on(folder, **keys)
    start = ASR(recipe.model.model_copy(update={"output": "softmax"}), recipe.features, 7, None)
    start.encoder.load_start()
    pretrained = [tensor for tensor in last if tensor.startswith("encoder.network.")]
    given = [t for t in pretrained if ".layers.1." in t or ".layers.2." in t]
    assert given
    for tensor in given:
        assert torch.equal(first[tensor], start.state_dict()[tensor]), tensor
    assert any(not torch.equal(last[tensor], first[tensor]) for tensor in given)
    for tensor in set(pretrained) - set(given):
        assert torch.equal(last[tensor], first[tensor]), tensor


def test_states_are_computed_once(
    corpus: TinyCorpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Runs with the same encoder share them; what is missing, and no more, is made again."""
    folder = save_model("whisper", tmp_path / "base")
    cache = tmp_path / "cache"
    made: list[str] = []
    encode = states_module.StatesWriter._encode

    def count(writer: Any, waiting: dict[Path, torch.Tensor]) -> None:
        made.extend(map(str, waiting))
        encode(writer, waiting)

    monkeypatch.setattr(states_module.StatesWriter, "_encode", count)
    monkeypatch.setattr(states_module, "count_cores", lambda: 0)  # here, to be counted
    train_corpus(recipe_on(folder, steps=2, cache=cache), corpus, tmp_path / "one")
    assert len(made) == 2 * 8 + 2  # two speeds, and the development set at its own
    files = sorted(cache.rglob("*.npy"))
    assert len(files) == len(made)
    contents = [path.read_bytes() for path in files]
    made.clear()
    train_corpus(recipe_on(folder, steps=2, cache=cache), corpus, tmp_path / "two")
    assert not made
    files[3].unlink()
    files[4].write_bytes(b"torn")
    train_corpus(recipe_on(folder, steps=2, cache=cache), corpus, tmp_path / "three")
    assert len(made) == 2
    assert [path.read_bytes() for path in files] == contents
    assert_same(weights_of(tmp_path / "one", 2), weights_of(tmp_path / "three", 2))
    made.clear()
    train_corpus(recipe_on(folder, steps=2, cache=cache, layers="last"), corpus, tmp_path / "last")
    assert len(made) == 2 * 8 + 2  # other layers are other states


@pytest.mark.parametrize("freeze", ["all", 1, "none"])
def test_checkpoints_share_what_never_learns(
    corpus: TinyCorpus, tmp_path: Path, freeze: str | int
) -> None:
    """One file with several names on the disk; each folder is whole, and so is the final one."""
    folder, run = save_model("whisper", tmp_path / "base"), tmp_path / "run"
    train_corpus(recipe_on(folder, steps=4, freeze=freeze), corpus, run)
    one, other = (run / f"checkpoints/step-00000{step}" for step in (2, 4))
    assert not (run / "final" / FROZEN).exists()
    final, whole = load_checkpoint(run / "final"), load_checkpoint(other)
    frozen = {f"encoder.{name}" for name in final.model.encoder.frozen_names()}
    assert final.model.state_dict().keys() == whole.model.state_dict().keys()
    assert bool(frozen) == (freeze != "none") == (one / FROZEN).exists()
    if not frozen:
        return
    assert (one / FROZEN).samefile(other / FROZEN)
    stored = load_file(other / FROZEN)
    assert stored.keys() == frozen
    assert not stored.keys() & load_file(other / "model.safetensors").keys()
    assert_same(stored, {name: final.model.state_dict()[name] for name in frozen})

    copied = tmp_path / "copied"
    shutil.copytree(other, copied)
    shutil.rmtree(run)
    assert_same(dict(load_checkpoint(copied).model.state_dict()), load_weights(copied))
    (copied / FROZEN).write_bytes((copied / FROZEN).read_bytes()[:-1] + b"!")
    for read in (load_checkpoint, load_weights):
        with pytest.raises(ArborvoxError, match=r"frozen\.safetensors is damaged"):
            read(copied)
    (copied / FROZEN).unlink()
    for read in (load_checkpoint, load_weights):
        with pytest.raises(ArborvoxError, match=r"there is no frozen\.safetensors"):
            read(copied)


def test_states_that_do_not_fit_on_the_disk_are_refused(
    corpus: TinyCorpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = save_model("whisper", tmp_path / "base")
    monkeypatch.setattr(shutil, "disk_usage", lambda path: shutil._ntuple_diskusage(9, 9, 10))
    with pytest.raises(ArborvoxError, match=r"states need .* GB more, but .* 0\.0 GB left"):
        train_corpus(recipe_on(folder), corpus, tmp_path / "run")


def test_states_that_are_there_need_no_room(
    corpus: TinyCorpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full disk stops nothing that is only read again; one missing state is named by its size."""
    folder, cache = save_model("whisper", tmp_path / "base"), tmp_path / "states"
    train_corpus(recipe_on(folder, steps=2, cache=cache), corpus, tmp_path / "one")
    monkeypatch.setattr(shutil, "disk_usage", lambda path: shutil._ntuple_diskusage(9, 9, 10))
    train_corpus(recipe_on(folder, steps=2, cache=cache), corpus, tmp_path / "two")
    assert (tmp_path / "two" / "final").is_dir()
    next(cache.rglob("*.npy")).unlink()
    with pytest.raises(ArborvoxError, match="states need"):
        train_corpus(recipe_on(folder, steps=2, cache=cache), corpus, tmp_path / "three")


def test_noise_keeps_the_encoder_running(corpus: TinyCorpus, tmp_path: Path) -> None:
    """What is drawn anew each time cannot be kept; training goes on without a cache."""
    folder = save_model("whisper", tmp_path / "base")
    recipe = recipe_on(folder, steps=2)
    noisy = recipe.augment.model_copy(update={"noise_folder": str(corpus.audio)})
    train_corpus(recipe.model_copy(update={"augment": noisy}), corpus, tmp_path / "run")
    assert not (tmp_path / "run" / "data" / "states").exists()
    assert (tmp_path / "run" / "final").is_dir()


def test_command_line_names_a_pretrained_encoder(corpus: TinyCorpus, tmp_path: Path) -> None:
    """`--pretrained` puts it under any recipe, and a wrong one is the user's mistake."""
    folder = save_model("whisper", tmp_path / "base")
    arguments = command_arguments(make_recipe(train={"max_steps": 1}), corpus, tmp_path / "run")
    for name, code in (("/no/such/folder", 2), (str(folder), 0)):
        with pytest.raises(SystemExit) as left:
            main([*arguments[1:], "--pretrained", name])
        assert (left.value.code or 0) == code
    assert load_checkpoint(tmp_path / "run").recipe.model.pretrained == str(folder)


def test_stop_while_encoding_keeps_what_was_done(
    corpus: TinyCorpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = save_model("whisper", tmp_path / "base")
    cache = tmp_path / "cache"
    encode = states_module.StatesWriter._encode

    def ask_to_stop(writer: Any, waiting: dict[Path, torch.Tensor]) -> None:
        signal.raise_signal(signal.SIGTERM)
        monkeypatch.setattr(states_module.StatesWriter, "_encode", encode)
        encode(writer, waiting)

    monkeypatch.setattr(states_module, "count_cores", lambda: 0)
    monkeypatch.setattr(states_module.StatesWriter, "_encode", ask_to_stop)
    with pytest.raises(KeyboardInterrupt):
        train_corpus(recipe_on(folder, steps=2, cache=cache), corpus, tmp_path / "run")
    assert len(list(cache.rglob("*.npy"))) == 8  # the first piece
    train_corpus(recipe_on(folder, steps=2, cache=cache), corpus, tmp_path / "run")
    assert len(list(cache.rglob("*.npy"))) == 2 * 8 + 2


def test_a_run_takes_its_encoder_from_the_model_that_it_starts_from(
    corpus: TinyCorpus, tmp_path: Path
) -> None:
    folder = save_model("whisper", tmp_path / "base")
    train_corpus(recipe_on(folder, steps=2), corpus, tmp_path / "first")
    start = {"init_from": str(tmp_path / "first")}
    train_corpus(recipe_on(folder, steps=2, train=start), corpus, tmp_path / "with")
    folder.rename(tmp_path / "gone")
    train_corpus(recipe_on(folder, steps=2, train=start), corpus, tmp_path / "without")
    assert_same(weights_of(tmp_path / "with", 2), weights_of(tmp_path / "without", 2))
