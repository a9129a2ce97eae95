"""A pretrained network as an encoder: which of its states are read, what learns, what is on top."""

import itertools
from collections.abc import Callable, Sequence
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
from arborvox.model.encoders.stack import StackedEncoder, padded_frames
from arborvox.model.encoders.transformer import TransformerLayer
from arborvox.model.kernels.dispatch import is_exported, suits_kernel
from arborvox.model.kernels.mixture import mix_states
from arborvox.model.products import Linear

# By what config.json calls "model_type".
FAMILIES: dict[str, type[PretrainedNetwork]] = {
    "whisper": WhisperNetwork,
    "wav2vec2": Wav2Vec2Network,  # XLS-R and MMS too
    "hubert": HubertNetwork,
    "wavlm": WavLMNetwork,
    "wav2vec2-bert": W2vBertNetwork,
}

States = tuple[Tensor, Tensor]  # (B, T', D), (B,)

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
        if config.silence == "as-taught":
            self.network.hear_silence()
        if config.quantize == "feed-forward":
            self.network.quantize(_count_frozen(config, len(self.network.layers)))
        self.state_s = self.network.frames_a_state * self.input.frame_s * config.stride
        self.description = (
            f"{self._base.name} ({self._base.family}, {len(self.network.layers)} layers of width "
            f"{self.network.width}), then {config.encoder_layers} {config.top} layers, a state "
            f"every {round(1000 * self.state_s)} ms"
        )
        self.config = config
        self.chosen = _choose_states(config, len(self.network.layers))
        self.mixture = nn.Parameter(torch.zeros(len(self.chosen)))
        self.project = Linear(config.stride * self.network.width, config.width)
        self._build_stack(config, TOPS[config.top])
        # What does not learn ends here; above it there may be layers that do, which must be given
        # its last state as it is.
        self._lower = min(self._num_frozen_layers, max(self.chosen))
        self._num_raw = int(self._lower < max(self.chosen))
        self._kept = tuple(n for n in self.chosen if n < self._lower + 1 - self._num_raw)
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

    @property
    def packed_key(self) -> str:
        """Name what `pack` changes beyond rounding."""
        return self.network.packed_key

    def given_parameters(self) -> list[nn.Parameter]:
        """List the pretrained parameters that learn."""
        return [p for p in self.network.parameters() if p.requires_grad]

    def frozen_names(self) -> set[str]:
        """Name the pretrained parameters that never learn."""
        frozen = {id(parameter) for parameter in self._frozen_parameters()}
        return {name for name, parameter in self.named_parameters() if id(parameter) in frozen}

    @property
    def states_input(self) -> SpeechInput | None:
        """Describe the states of the part that does not learn, where there is one."""
        if self._num_frozen_layers == 0:
            return None
        learning = {name for name, p in self.network.named_parameters() if p.requires_grad}
        resting = {n: t for n, t in self.network.state_dict().items() if n not in learning}
        kept = ",".join(map(str, self._kept))
        if self._num_raw:
            kept += f"+{self._lower}"
        if self.network.num_silent:
            kept += f"|{self.network.num_silent} silent"
        return StatesInput(
            of=self.input,
            frames_a_state=self.network.frames_a_state,
            width=(len(self._kept) + self._num_raw) * self.network.width,
            key=f"{digest_tensors(resting)}|{kept}",
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
        if self._num_raw:
            mixed, lens = self._in_windows(self._mixed_with_upper, states, lens, a_state=1)
        else:
            mixed = self._mixed_kept(states)
        joined, lens = _join_neighbors(mixed, lens, self.config.stride)
        return self._run_stack(self.project(joined), lens)

    def frozen_states(self, frames: Tensor, lens: Tensor) -> tuple[Tensor, Tensor]:
        """Return states of the lower part side by side, (B, T', K·D0), (B,).

        Those that are mixed are normalized: layers' states differ in scale by orders, so a weight
        of the mixture means the same for each, and half precision holds them all. What the
        layers above are to read comes last, as it is.
        """
        a_state = self.network.frames_a_state
        return self._in_windows(self._lower_states, frames, lens, a_state=a_state)

    def frozen_states_of_each(self, utterances: Sequence[Tensor]) -> list[Tensor]:
        """Return the same of each by itself, joined for the products where the network can.

        What is heard in windows is heard alone, so that none depends on its company.
        """
        most = self.network.max_frames
        joins = [self.network.can_join and (most is None or len(x) <= most) for x in utterances]
        joined = iter(self._joined_states(list(itertools.compress(utterances, joins))))
        alone = super().frozen_states_of_each
        return [
            next(joined) if is_joined else alone([frames])[0]
            for frames, is_joined in zip(utterances, joins, strict=True)
        ]

    def _joined_states(self, utterances: Sequence[Tensor]) -> list[Tensor]:
        if not utterances:
            return []
        silent = 0 if self._num_raw else self.network.num_silent
        x, rows = self.network.join(utterances)
        heard = rows.cut(silent)
        states = [rows.part(self._normalized(0, x))] if 0 in self._kept else []
        for number in range(1, self._lower + 1):
            last = number == self._lower
            x = self.network.run_rows(number - 1, x, rows, silent if last else 0)
            if last:
                rows = heard
            if number in self._kept:
                states.append(rows.part(self._normalized(number, x)))
        if self._num_raw:
            states.append(rows.part(x.float()))
        return [
            torch.cat([part[:length] for part in own], dim=-1)
            for own, length in zip(zip(*states, strict=True), heard.lens, strict=True)
        ]

    def _in_windows(
        self, run: Callable[[Tensor, Tensor], States], x: Tensor, lens: Tensor, *, a_state: int
    ) -> States:
        """Run a part on (B, T, …), of which `a_state` stand for a state, in windows where needed.

        Utterances that are too long are heard in windows of one length each, and their states
        joined. How one is cut depends on its own length alone.
        """
        longest = x.shape[1] if is_exported() else int(lens.max())
        most = self.network.max_frames
        if most is not None and a_state == 1:
            most = most // self.network.frames_a_state + self.network.num_silent
        # Who runs an exported graph gives it no more than the network can hear at once.
        if is_exported() or most is None or longest <= most:
            return run(x[:, :longest], lens)
        windows, owners = [], []
        for row, length in enumerate(lens.tolist()):
            count = -(-length // most)
            size = -(-length // (count * a_state)) * a_state
            for start in range(0, length, size):
                windows.append(x[row, start : min(start + size, length)])
                owners.append(row)
        window_lens = torch.tensor([len(window) for window in windows], device=lens.device)
        states, state_lens = run(pad_sequence(windows, batch_first=True), window_lens)
        parts: list[list[Tensor]] = [[] for _ in range(len(lens))]
        for row, values, length in zip(owners, states, state_lens.tolist(), strict=True):
            parts[row].append(values[:length])
        joined = [torch.cat(values) for values in parts]
        joined_lens = torch.tensor([len(values) for values in joined], device=lens.device)
        return pad_sequence(joined, batch_first=True), joined_lens

    def _lower_states(self, frames: Tensor, lens: Tensor) -> States:
        x, lens = self.network.embed(frames, lens)
        context = self.network.context(x, lens)
        # Layers above are to hear the silence, too.
        silent = 0 if self._num_raw else self.network.num_silent
        heard = x.shape[1] - silent
        states = [self._normalized(0, x[:, :heard])] if 0 in self._kept else []
        for number in range(1, self._lower + 1):
            last = number == self._lower and not self._num_raw
            x = self._run_layer(number - 1, x, context, last=last)
            if number in self._kept:
                states.append(self._normalized(number, x[:, :heard]))
        return torch.cat([*states, *[x.float()] * self._num_raw], dim=-1), lens - silent

    def _mixed_kept(self, states: Tensor) -> Tensor:
        """Mix what `frozen_states` gave of layers that do not learn, (B, T', K·D0) -> (…, D0)."""
        weights = self.mixture.softmax(dim=0)[: len(self._kept)]
        return _mix(states.view(*states.shape[:-1], len(weights), -1), weights)

    def _mixed_with_upper(self, states: Tensor, lens: Tensor) -> States:
        """Run the layers that learn on what `frozen_states` gave, and mix the chosen states.

        They are added up one by one: side by side they would be copied, a dozen wide ones.
        """
        width = self.network.width
        silent = self.network.num_silent
        heard = states.shape[1] - silent
        # Kept ones are in half precision.
        below, x = states[:, :heard, :-width], states[..., -width:].to(self.project.weight.dtype)
        mixed = self._mixed_kept(below) if self._kept else None
        weights = self.mixture.softmax(dim=0)
        context = self.network.context(x, lens)
        for number in range(self._lower, max(self.chosen) + 1):
            if number > self._lower:
                x = self._run_layer(number - 1, x, context, last=number == max(self.chosen))
            if number in self.chosen:
                weight = weights[self.chosen.index(number)]
                state = self._normalized(number, x[:, :heard]).to(weight.dtype)
                mixed = weight * state if mixed is None else torch.addcmul(mixed, state, weight)
        assert mixed is not None
        return mixed, lens - silent

    def _normalized(self, number: int, x: Tensor) -> Tensor:
        state = self.network.finish(x) if number == len(self.network.layers) else x
        return functional.layer_norm(state.float(), (self.network.width,))

    def train(self, mode: bool = True) -> "PretrainedEncoder":
        """Set the mode; what does not learn has no dropout either."""
        super().train(mode)
        if self.config.freeze == "all":
            self.network.eval()
        return self

    def _run_layer(self, number: int, x: Tensor, context: object, *, last: bool) -> Tensor:
        run = self.network.run_last_layer if last else self.network.run_layer
        learns = self.training and number >= self._num_frozen_layers
        if learns and self.config.layer_drop and float(torch.rand(())) < self.config.layer_drop:
            return x
        if learns and self.config.gradient_checkpointing:
            out: Tensor = checkpoint(run, number, x, context, use_reentrant=False)
            return out
        return run(number, x, context)

    @property
    def _num_frozen_layers(self) -> int:
        return _count_frozen(self.config, len(self.network.layers))

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


def _count_frozen(config: ModelConfig, num_layers: int) -> int:
    """Return how many of the lowest layers do not learn."""
    if config.freeze == "all":
        return num_layers
    return 0 if config.freeze == "none" else config.freeze


def _mix(states: Tensor, weights: Tensor) -> Tensor:
    """Return the states as one, (B, T', K, D0), (K,) -> (B, T', D0)."""
    kept = states.dtype is torch.half and not states.requires_grad
    if kept and suits_kernel("mixture", weights, cast=True):
        return mix_states(states, weights)
    return torch.einsum("k,btkd->btd", weights, states.to(weights.dtype))


def _join_neighbors(states: Tensor, lens: Tensor, stride: int) -> tuple[Tensor, Tensor]:
    """Put `stride` states side by side, (B, T', D), (B,) -> (B, ceil(T' / stride), stride·D), (B,).

    The last one of an utterance is filled up with zeros, whatever stands behind it in a batch.
    """
    if stride == 1:
        return states, lens
    num_joined = (states.shape[1] + stride - 1) // stride
    states = states.masked_fill(padded_frames(states, lens), 0.0)
    states = functional.pad(states, (0, 0, 0, stride - 1))
    parts = [states[:, first::stride][:, :num_joined] for first in range(stride)]
    return torch.cat(parts, dim=-1), (lens + stride - 1) // stride


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
    if config.layers == "upper":
        return tuple(range(num_layers // 2, num_layers + 1))
    if config.layers == "mixture":
        return tuple(range(num_layers + 1))
    if max(config.layers) > num_layers:
        raise ArborvoxError(
            f"model.layers: there is no layer {max(config.layers)}; {config.pretrained} has "
            f"{num_layers}."
        )
    return tuple(sorted(set(config.layers)))
