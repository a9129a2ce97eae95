"""Seconds of audio a second through pretrained encoders, ours beside `transformers`' own loop.

  python benchmarks/encoders.py --threads 1
  python benchmarks/encoders.py --model whisper-base --seconds 5 --json results/encoders.json

Sizes are those of published models, weights are random. Forward: features and states of all layers
in bf16. Training: one fine-tuning step of all pretrained weights, bf16 with fp32 master weights.
The peer gets its own feature extractor, attention kernel and bf16, and all utterances in a call.
Whisper hears silence behind each utterance, as recipes have it; the peer hears all of its 30 s.
"""

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from numpy.typing import NDArray
from publishing import tell
from timing import interleave
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from arborvox.config import FeaturesConfig, ModelConfig
from arborvox.model.asr import ASR
from arborvox.report.document import Cell, Table

RATE = 16_000
HEADER = ("model", "utterances", "what", "ours", "transformers", "ratio")
LARGE = {
    "hidden_size": 1024,
    "num_hidden_layers": 24,
    "num_attention_heads": 16,
    "intermediate_size": 4096,
    "layerdrop": 0.0,  # a tenth by default: the peer would learn by fewer layers than ours
}
# name -> config class, model class, extractor, settings
MODELS: dict[str, tuple[str, str, str, dict[str, Any]]] = {
    "whisper-base": (
        "WhisperConfig",
        "WhisperModel",
        "WhisperFeatureExtractor",
        {
            "d_model": 512,
            "encoder_layers": 6,
            "encoder_attention_heads": 8,
            "encoder_ffn_dim": 2048,
            "decoder_layers": 1,
            "decoder_attention_heads": 8,
            "decoder_ffn_dim": 64,
        },
    ),
    "xls-r-300m": (
        "Wav2Vec2Config",
        "Wav2Vec2Model",
        "Wav2Vec2FeatureExtractor",
        {
            **LARGE,
            "feat_extract_norm": "layer",
            "do_stable_layer_norm": True,
            "conv_bias": True,
        },
    ),
    "w2v-bert": (
        "Wav2Vec2BertConfig",
        "Wav2Vec2BertModel",
        "SeamlessM4TFeatureExtractor",
        LARGE,
    ),
}


def make_speech(seconds: float, count: int) -> list[NDArray[np.float32]]:
    """Return noises of about one length, as a batch of sorted utterances is."""
    lengths = np.linspace(0.9 * seconds, seconds, count)
    chance = np.random.default_rng(0)
    return [chance.normal(scale=0.1, size=int(s * RATE)).astype(np.float32) for s in lengths]


def our_batch(model: ASR, speech: list[NDArray[np.float32]]) -> tuple[Tensor, Tensor]:
    """Compute and pad the encoder's input."""
    frames = [model.encoder.input(samples) for samples in speech]
    return pad_sequence(frames, batch_first=True), torch.tensor([len(f) for f in frames])


def our_forward(folder: Path, speech: list[NDArray[np.float32]]) -> Callable[[], object]:
    """Return what the cache of states does, in bf16; Whisper's utterances share products."""
    model = build(folder, freeze="all")
    model.encoder.bfloat16()
    model.encoder.pack()

    @torch.inference_mode()
    def run() -> object:
        frames = [model.encoder.input(samples) for samples in speech]
        return model.encoder.frozen_states_of_each(frames)

    return run


def our_step(folder: Path, speech: list[NDArray[np.float32]]) -> Callable[[], object]:
    """Return a fine-tuning step."""
    model = build(folder, freeze="none").train()

    def run() -> object:
        with torch.autocast("cpu", torch.bfloat16):
            states = model.encode(*our_batch(model, speech))[0]
        torch.autograd.backward(states.float().square().mean())
        model.zero_grad(set_to_none=True)
        return states

    return run


def build(folder: Path, **keys: Any) -> ASR:
    """Build our encoder with nothing on top."""
    settings = {"encoder": "pretrained", "pretrained": str(folder), "encoder_layers": 0}
    settings |= {"silence": "as-taught", "output": "softmax"}
    config = ModelConfig.model_validate({**settings, **keys})
    model = ASR(config, FeaturesConfig(), 100, None).eval()
    model.encoder.load_start()
    return model


def their_run(
    name: str, folder: Path, speech: list[NDArray[np.float32]], *, learn: bool
) -> Callable[[], object]:
    """Return the library's own way: extractor, padding, whole model."""
    _, model_class, extractor_class, _ = MODELS[name]
    extractor = getattr(transformers, extractor_class)()
    model = getattr(transformers, model_class).from_pretrained(folder)
    model = model.encoder if name.startswith("whisper") else model
    model = model.train() if learn else model.eval().bfloat16()
    padding = {} if name.startswith("whisper") else {"padding": True}

    def run() -> object:
        inputs = extractor(speech, sampling_rate=RATE, return_tensors="pt", **padding)
        if learn:
            with torch.autocast("cpu", torch.bfloat16):
                states = model(**inputs).last_hidden_state
            torch.autograd.backward(states.float().square().mean())
            model.zero_grad(set_to_none=True)
            return states
        first, *rest = inputs.values()
        with torch.inference_mode():
            return model(first.bfloat16(), *rest, output_hidden_states=True)

    return run


def compare(
    name: str, seconds: float, count: int, budget_s: float, *, learn: bool
) -> list[tuple[Cell, ...]]:
    """Return one row for each direction: seconds of audio a second."""
    rows = []
    config_class, model_class, _, settings = MODELS[name]
    torch.manual_seed(0)
    speech = make_speech(seconds, count)
    audio_s = sum(map(len, speech)) / RATE
    with tempfile.TemporaryDirectory() as root:
        folder = Path(root)
        config = getattr(transformers, config_class)(**settings)
        getattr(transformers, model_class)(config).save_pretrained(folder)
        for what in ("forward", "training") if learn else ("forward",):
            ours = (our_step if what == "training" else our_forward)(folder, speech)
            theirs = their_run(name, folder, speech, learn=what == "training")
            times = interleave(
                {"ours": ours, "theirs": theirs},
                budget_s=budget_s,
                sample_s=0.0,
                clock=time.process_time,
            )
            speeds = {who: audio_s / timing.median_s for who, timing in times.items()}
            figures = (*speeds.values(), speeds["ours"] / speeds["theirs"])
            words = (name, f"{count} of {seconds:g} s", what)
            rows.append(tuple(map(Cell, (*words, *(f"{figure:.3g}" for figure in figures)))))
    return rows


def main() -> None:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--model", choices=list(MODELS), action="append")
    parser.add_argument("--seconds", type=float, action="append")
    parser.add_argument("--count", type=int, default=6, help="utterances in a batch")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--budget-s", type=float, default=20.0, help="time for each row")
    parser.add_argument("--forward-only", action="store_true")
    parser.add_argument("--json", type=Path, help="write the figures here")
    parser.add_argument("--add", action="store_true", help="keep rows of models that are left out")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    transformers.utils.logging.set_verbosity_error()
    rows = [
        row
        for name in options.model or list(MODELS)
        for seconds in options.seconds or [2.0, 10.0]
        for row in compare(
            name, seconds, options.count, options.budget_s, learn=not options.forward_only
        )
    ]
    tell({"encoders": Table(HEADER, tuple(rows))}, options.json, add=options.add)


if __name__ == "__main__":
    main()
