"""A pretrained network as an encoder: which of its states are read, what learns, what is on top."""

from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils.rnn import pad_sequence
from torch.utils.checkpoint import checkpoint

from arborvox.config import FeaturesConfig, ModelConfig
from arborvox.errors import ArborvoxError
from arborvox.features import SpeechInput, StatesInput, digest_tensors
from arborvox.model.encoders.conformer import ConformerLayer
from arborvox.model.encoders.contract import EncoderStates
from arborvox.model.encoders.pretrained.base_model import BaseModel, open_base_model
from arborvox.model.encoders.pretrained.network import PretrainedNetwork
from arborvox.model.encoders.pretrained.w2v_bert import W2vBertNetwork
from arborvox.model.encoders.pretrained.wav2vec2 import (
    HubertNetwork,
    Wav2Vec2Network,
    WavLMNetwork,
)
from arborvox.model.encoders.pretrained.whisper import WhisperNetwork
from arborvox.model.encoders.stack import StackedEncoder
from arborvox.model.encoders.transformer import TransformerLayer
from arborvox.model.kernels.dispatch import is_exported

# By what config.json calls "model_type".
FAMILIES: dict[str, type[PretrainedNetwork]] = {
    "whisper": WhisperNetwork,
    "wav2vec2": Wav2Vec2Network,  # XLS-R and MMS too
    "hubert": HubertNetwork,
    "wavlm": WavLMNetwork,
    "wav2vec2-bert": W2vBertNetwork,
}

TOPS: dict[str, type[nn.Module]] = {"conformer": ConformerLayer, "transformer": TransformerLayer}


class PretrainedEncoder(StackedEncoder):
    """States of some of a pretrained network's layers, mixed, projected, and layers of our own.

    States are counted from 0, what the first layer reads, to the last layer's.
    """

    def __init__(
        self, config: ModelConfig, features: FeaturesConfig, home: Path | None = None
    ) -> None:
        super().__init__(config, features, home)
        self._base = open_base_model(config.pretrained, home)
        self._is_given = home is not None
        self.network = _family(self._base)(self._base)
        self.state_s = self.network.frames_a_state * self.input.frame_s
        self.description = (
            f"{self._base.name} ({self._base.family}, {len(self.network.layers)} layers of width "
            f"{self.network.width}), then {config.encoder_layers} {config.top} layers"
        )
        self.config = config
        self.chosen = _choose_states(config, len(self.network.layers))
        self.mixture = nn.Parameter(torch.zeros(len(self.chosen)))
        self.project = nn.Linear(self.network.width, config.width)
        self._build_stack(config, TOPS[config.top])
        self._states_given = False
        for parameter in self._frozen_parameters():
            parameter.requires_grad_(False)

    @classmethod
    def make_input(
        cls, config: ModelConfig, features: FeaturesConfig, home: Path | None = None
    ) -> SpeechInput:
        """Return what the pretrained model takes; it says itself at which rate."""
        base = open_base_model(config.pretrained, home)
        return _family(base).make_input(base)

    def load_start(self) -> None:
        """Take the pretrained weights, unless they are another checkpoint's to give."""
        if not self._is_given:
            self.network.load(self._base)

    def files(self) -> dict[str, str]:
        """Return the pretrained model's own configuration."""
        return self._base.files()

    def card_rows(self) -> list[tuple[str, str]]:
        """Tell what the model was made from."""
        base = self._base
        return [
            ("Base model", base.name),
            ("Base model's license", base.license),
            ("Base model's languages", base.languages),
        ]

    def pack(self) -> None:
        """Lay out the pretrained weights for the processor."""
        self.network.pack()

    def given_parameters(self) -> list[nn.Parameter]:
        """List the pretrained parameters that learn."""
        return [p for p in self.network.parameters() if p.requires_grad]

    @property
    def states_input(self) -> SpeechInput | None:
        """Describe the states of a network that does not learn."""
        if self.config.freeze != "all":
            return None
        digest = digest_tensors(self.network.state_dict())
        return StatesInput(
            of=self.input,
            frames_a_state=self.network.frames_a_state,
            width=len(self.chosen) * self.network.width,
            key=f"{digest}|{','.join(map(str, self.chosen))}",
        )

    def take_states(self) -> None:
        """Expect what `frozen_states` gave from now on."""
        self._states_given = True

    def forward(self, frames: Tensor, lens: Tensor) -> EncoderStates:
        """Encode, (B, T, M), (B,) -> (B, T', D), (B,)."""
        states = frames
        if not self._states_given:
            with torch.set_grad_enabled(torch.is_grad_enabled() and self.config.freeze != "all"):
                states, lens = self.frozen_states(frames, lens)
        weights = self.mixture.softmax(dim=0)
        states = states.view(*states.shape[:2], len(self.chosen), -1)  # (B, T', K, D0)
        mixed = torch.einsum("k,btkd->btd", weights, states.to(weights.dtype))
        return self._run_stack(self.project(mixed), lens)

    def frozen_states(self, frames: Tensor, lens: Tensor) -> tuple[Tensor, Tensor]:
        """Return the chosen states side by side, each normalized, (B, T', K·D0), (B,).

        Layers' states differ in scale by orders: normalized, a weight of the mixture means the
        same for each, and half precision holds them all.
        """
        if is_exported():  # who runs the graph gives it no more than the network can hear at once
            return self._states(frames, lens)
        most = self.network.max_frames
        longest = int(lens.max())
        if most is not None and longest > most:
            return self._states_of_windows(frames, lens, most)
        return self._states(frames[:, :longest], lens)

    def _states_of_windows(self, frames: Tensor, lens: Tensor, most: int) -> tuple[Tensor, Tensor]:
        """Hear utterances that are too long in windows of one length each, and join their states.

        How an utterance is cut depends on its own length alone.
        """
        step = self.network.frames_a_state
        windows, owners = [], []
        for row, length in enumerate(lens.tolist()):
            count = -(-length // most)
            size = -(-length // (count * step)) * step
            for start in range(0, length, size):
                windows.append(frames[row, start : min(start + size, length)])
                owners.append(row)
        window_lens = torch.tensor([len(window) for window in windows], device=lens.device)
        states, state_lens = self._states(pad_sequence(windows, batch_first=True), window_lens)
        parts: list[list[Tensor]] = [[] for _ in range(len(lens))]
        for row, values, length in zip(owners, states, state_lens.tolist(), strict=True):
            parts[row].append(values[:length])
        joined = [torch.cat(values) for values in parts]
        joined_lens = torch.tensor([len(values) for values in joined], device=lens.device)
        return pad_sequence(joined, batch_first=True), joined_lens

    def _states(self, frames: Tensor, lens: Tensor) -> tuple[Tensor, Tensor]:
        x, lens, context = self.network.embed(frames, lens)
        states = []
        for number in range(max(self.chosen) + 1):
            if number:
                x = self._run_layer(number - 1, x, context)
            if number in self.chosen:
                last = number == len(self.network.layers)
                state = self.network.finish(x) if last else x
                states.append(functional.layer_norm(state.float(), (self.network.width,)))
        return torch.cat(states, dim=-1), lens

    def train(self, mode: bool = True) -> "PretrainedEncoder":
        """Set the mode; what does not learn has no dropout either."""
        super().train(mode)
        if self.config.freeze == "all":
            self.network.eval()
        return self

    def _run_layer(self, number: int, x: Tensor, context: object) -> Tensor:
        learns = self.training and number >= self._num_frozen_layers
        if learns and self.config.layer_drop and float(torch.rand(())) < self.config.layer_drop:
            return x
        if learns and self.config.gradient_checkpointing:
            out: Tensor = checkpoint(
                self.network.run_layer, number, x, context, use_reentrant=False
            )
            return out
        return self.network.run_layer(number, x, context)

    @property
    def _num_frozen_layers(self) -> int:
        freeze, num_layers = self.config.freeze, len(self.network.layers)
        if freeze == "all":
            return num_layers
        return 0 if freeze == "none" else freeze

    def _frozen_parameters(self) -> list[nn.Parameter]:
        """List what does not learn: all, nothing, or whatever is below the first layers' end."""
        if self.config.freeze == "none":
            return []
        learning = {
            id(p)
            for layer in self.network.layers[self._num_frozen_layers :]
            for p in layer.parameters()
        }
        frozen_all = self.config.freeze == "all"
        return [p for p in self.network.parameters() if frozen_all or id(p) not in learning]


def _family(base: BaseModel) -> type[PretrainedNetwork]:
    if base.family not in FAMILIES:
        raise ArborvoxError(
            f'{base.folder / "config.json"}: "model_type" is {base.family!r}, which is no family '
            f"of speech encoders known here; there are: {', '.join(FAMILIES)}."
        )
    return FAMILIES[base.family]


def _choose_states(config: ModelConfig, num_layers: int) -> tuple[int, ...]:
    """Return which states are read, lowest first."""
    if config.layers == "last":
        return (num_layers,)
    if config.layers == "mixture":
        return tuple(range(num_layers + 1))
    if max(config.layers) > num_layers:
        raise ArborvoxError(
            f"model.layers: there is no layer {max(config.layers)}; {config.pretrained} has "
            f"{num_layers}."
        )
    return tuple(sorted(set(config.layers)))
