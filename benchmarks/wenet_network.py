"""The network of size `paper`, built from the classes of a user's own checkout of WeNet.

Nothing of WeNet is kept here. Its package imports on loading what only its data pipeline and its
command line need (torchaudio, whisper's list of languages, and more). The network needs none of
it: the package is entered beside its `__init__`, and the two names that are imported on the way are
given empty modules in this process.
"""

import importlib
import subprocess
import sys
import typing
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from taking_turns import Pause, go_on
from torch import Tensor, nn

from arborvox.config import ModelConfig

TRANSFORMER = "wenet.models.transformer"


def open_checkout(checkout: Path) -> str:
    """Make a checkout's modules importable; return its commit."""
    if not (checkout / "wenet/models/transformer/asr_model.py").is_file():
        sys.exit(f"{checkout} is no checkout of WeNet: it has no {TRANSFORMER}.asr_model.")
    package = ModuleType("wenet")
    package.__path__ = [str(checkout / "wenet")]
    sys.modules["wenet"] = package
    for name in ("torchaudio", "torchaudio.functional", "whisper", "whisper.tokenizer"):
        sys.modules[name] = ModuleType(name)
    vars(sys.modules["torchaudio"])["functional"] = sys.modules["torchaudio.functional"]
    vars(sys.modules["whisper.tokenizer"])["LANGUAGES"] = {}
    # One of its modules takes these two from a module of torch that no longer imports them.
    for name in ("Optional", "Union"):
        vars(torch.nn.modules.conv).setdefault(name, getattr(typing, name))
    return describe_commit(checkout)


def describe_commit(checkout: Path) -> str:
    """Name the commit of a checkout, or say that it has none."""
    command = ["git", "-C", str(checkout), "log", "-1", "--format=%h of %cs"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout.strip() or "of no known commit"


def build(config: ModelConfig, num_mels: int, num_tokens: int) -> Any:
    """Build WeNet's network of the same sizes; its tokens are ours, the blank 0, <eos> the last."""
    torch.manual_seed(0)
    vocabulary = num_tokens + 1
    encoder = _named("encoder", "ConformerEncoder")(
        num_mels,
        output_size=config.width,
        attention_heads=config.heads,
        linear_units=config.feed_forward,
        num_blocks=config.encoder_layers,
        dropout_rate=config.dropout,
        positional_dropout_rate=config.dropout,
        cnn_module_kernel=config.kernel,
        cnn_module_norm="layer_norm",  # as ours is
    )
    decoder = _named("decoder", "TransformerDecoder")(
        vocabulary,
        config.width,
        attention_heads=config.heads,
        linear_units=config.feed_forward,
        num_blocks=config.decoder_layers,
        dropout_rate=config.dropout,
        positional_dropout_rate=config.dropout,
    )
    return _named("asr_model", "ASRModel")(
        vocab_size=vocabulary,
        encoder=encoder,
        decoder=decoder,
        ctc=_named("ctc", "CTC")(vocabulary, config.width),
        ctc_weight=config.ctc_weight,
        lsm_weight=config.label_smoothing,
    )


def _named(module: str, name: str) -> Any:
    return getattr(importlib.import_module(f"{TRANSFORMER}.{module}"), name)


def training_loss(
    model: Any, features: Tensor, feature_lens: Tensor, tokens: Tensor, token_lens: Tensor
) -> Tensor:
    """Return the joint loss of a batch, whose padding is -1 in both toolkits."""
    batch = {
        "feats": features,
        "feats_lengths": feature_lens,
        "target": tokens,
        "target_lengths": token_lens,
        "langs": None,
        "tasks": None,
    }
    loss: Tensor = model(batch, features.device)["loss"]
    return loss


class PeerSearch:
    """WeNet's searches, which write as many tokens as ours and pause between their steps."""

    def __init__(self, model: Any, num_tokens: int, posteriors: Tensor) -> None:
        """Prepare a network; `posteriors` (T', V + 1) stand for what CTC says of every utterance.

        The blank is their first column, as WeNet has it.
        """
        self._model = model.eval().requires_grad_(False)
        self._num_tokens, self._pause = num_tokens, go_on
        self._posteriors = posteriors
        self._step_decoder = model.decoder.forward_one_step
        self._ask_ctc = model.ctc_logprobs
        model.decoder.forward_one_step = self._one_step
        model.ctc_logprobs = self._ctc_log_probs
        layers: Sequence[nn.Module] = model.encoder.encoders
        for layer in layers:
            layer.register_forward_hook(lambda *_: self._pause())

    @torch.inference_mode()
    def __call__(
        self, method: str, features: Tensor, *, beam: int, ctc_weight: float, pause: Pause
    ) -> list[list[int]]:
        """Decode (B, T, M) by one of WeNet's methods; return tokens."""
        self._pause = pause
        lens = torch.full((len(features),), features.shape[1])
        found = self._model.decode(
            [method], features, lens, beam_size=beam, ctc_weight=ctc_weight, infos=None
        )
        return [list(result.tokens) for result in found[method]]

    def _one_step(self, memory: Tensor, mask: Tensor, tokens: Tensor, *rest: Any) -> Tensor:
        """Do all the work of a step; allow <eos> after the last token and nothing else there."""
        scores: Tensor = self._step_decoder(memory, mask, tokens, *rest)
        eos = self._model.eos
        if tokens.shape[1] <= self._num_tokens:
            scores[:, eos] = -torch.inf
        else:
            scores.fill_(-torch.inf)
            scores[:, eos] = 0.0
        self._pause()
        return scores

    def _ctc_log_probs(self, encoded: Tensor, *rest: Any) -> Tensor:
        """Do all the work of the CTC branch, and answer with the posteriors that were laid down."""
        self._ask_ctc(encoded, *rest)
        return self._posteriors[: encoded.shape[1]].expand(len(encoded), -1, -1)
