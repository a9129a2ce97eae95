"""What every encoder promises to features, workers, decoding, checkpoints and the model card."""

import hashlib
import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from arborvox.config import FeaturesConfig, ModelConfig, Recipe
from arborvox.config.model import EncoderKind
from arborvox.features import CMVN
from arborvox.model.asr import ASR
from arborvox.model.checkpoint import HEAD, WEIGHTS, load_checkpoint, save_checkpoint
from arborvox.model.encoders import ENCODERS, make_input
from arborvox.tokens.tokenizer import Tokenizer
from arborvox.tree import CodeTree

KINDS = sorted(ENCODERS)
FEATURES = FeaturesConfig(num_mels=16)


def noise(num_samples: int) -> np.ndarray:
    """Return a little noise."""
    return np.random.default_rng(0).normal(size=num_samples).astype(np.float32) * 0.1


@pytest.fixture(scope="module")
def config_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], ModelConfig]:
    """Return a tiny network's section."""

    def make(kind: str) -> ModelConfig:
        keys = {"size": "tiny", "encoder": kind, "output": "softmax"}
        if kind == "pretrained":
            pytest.importorskip("transformers")
            from tiny_pretrained import save_model

            folder = tmp_path_factory.mktemp("base")
            keys["pretrained"] = str(save_model("whisper", folder))
        return ModelConfig.model_validate(keys)

    return make


def test_every_choice_has_its_encoder() -> None:
    assert set(ENCODERS) == set(get_args(EncoderKind))


@pytest.mark.parametrize("kind", KINDS)
def test_input_needs_no_network_and_travels_to_workers(
    config_of: Callable[[str], ModelConfig], kind: str
) -> None:
    """What a worker computes is what the encoder's own input would have given."""
    config = config_of(kind)
    there = pickle.loads(pickle.dumps(make_input(config, FEATURES)))
    own = ASR(config, FEATURES, 7, None).encoder.input
    samples = noise(there.sampling_rate)
    frames = there(samples)
    assert torch.equal(frames, own(samples))
    assert frames.shape[1] == there.width
    assert there.key == own.key
    assert len(frames) * there.frame_s == pytest.approx(1.0, abs=2 * there.frame_s)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seconds", [0.001, 0.02, 1.0, 3.0])
def test_states_stand_for_the_seconds_that_they_say(
    config_of: Callable[[str], ModelConfig], kind: str, seconds: float
) -> None:
    model = ASR(config_of(kind), FEATURES, 7, None).eval()
    encoder = model.encoder
    frames = encoder.input(noise(int(seconds * encoder.input.sampling_rate)))
    states, lens = model.encode(frames[None], torch.tensor([len(frames)]))
    assert states.shape == (1, int(lens), model.config.width)
    assert int(lens) >= 1
    assert int(lens) * encoder.state_s == pytest.approx(seconds, abs=2 * encoder.state_s)


@pytest.mark.parametrize("kind", KINDS)
def test_shortest_input_gives_a_finite_state(
    config_of: Callable[[str], ModelConfig], kind: str
) -> None:
    model = ASR(config_of(kind), FEATURES, 7, None).eval()
    speech_input = model.encoder.input
    silence = torch.zeros(1, speech_input.min_frames, speech_input.width)
    states, lens = model.encode(silence, torch.tensor([speech_input.min_frames]))
    assert int(lens) == 1
    assert torch.isfinite(states).all()


@pytest.mark.parametrize("kind", ["conformer", "transformer"])
def test_half_precision_leaves_the_statistics_exact(
    config_of: Callable[[str], ModelConfig], kind: str
) -> None:
    """A mean of -13.37 in bf16 would shift every frame."""
    encoder = ASR(config_of(kind), FEATURES, 7, None).eval().encoder
    mean = torch.full((16,), -13.37)
    encoder.set_statistics(CMVN(mean, torch.ones(16)))
    frames, lens = mean.expand(1, 40, 16), torch.tensor([40])
    encoder.bfloat16()
    states = encoder(frames, lens)[0]
    encoder.set_statistics(CMVN(torch.zeros(16), torch.ones(16)))
    assert states.dtype == torch.bfloat16
    assert torch.equal(states, encoder(torch.zeros(1, 40, 16), lens)[0])


def test_card_tells_what_the_encoder_says(
    tmp_path: Path, make_model: Callable[..., ASR], tokenizer: Tokenizer, tree: CodeTree
) -> None:
    model = make_model()
    save_checkpoint(tmp_path / "saved", model, recipe_of(model), tokenizer, tree)
    card = (tmp_path / "saved" / "README.md").read_text(encoding="utf-8")
    assert f"| Encoder | {model.encoder.description} |" in card
    assert f"| Input | {model.encoder.input.description} |" in card


def test_checkpoints_from_before_the_encoder_had_the_statistics_load(
    tmp_path: Path, make_model: Callable[..., ASR], tokenizer: Tokenizer, tree: CodeTree
) -> None:
    """Version 1 kept mean and deviation as `cmvn_mean` and `cmvn_istd` of the whole network."""
    model = make_model().float()
    model.encoder.set_statistics(CMVN(torch.randn(16), torch.rand(16)))
    folder = tmp_path / "old"
    save_checkpoint(folder, model, recipe_of(model), tokenizer, tree)
    tensors = load_file(folder / WEIGHTS)
    old = {name.replace("encoder.cmvn_", "cmvn_"): values for name, values in tensors.items()}
    assert "cmvn_mean" in old
    save_file(old, folder / WEIGHTS)
    head = json.loads((folder / HEAD).read_text(encoding="utf-8"))
    head |= {
        "version": 1,
        "sha256": {WEIGHTS: hashlib.sha256((folder / WEIGHTS).read_bytes()).hexdigest()},
    }
    (folder / HEAD).write_text(json.dumps(head), encoding="utf-8")
    loaded = load_checkpoint(folder).model.state_dict()
    for name, tensor in model.state_dict().items():
        assert torch.equal(loaded[name], tensor), name


def recipe_of(model: ASR) -> Recipe:
    """Return a recipe that describes the model."""
    return Recipe.model_validate({"model": model.config, "features": FEATURES, "name": "test"})
