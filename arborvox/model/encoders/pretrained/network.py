"""What an adapter of a pretrained family promises to the encoder around it."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from arborvox.errors import ArborvoxError
from arborvox.features import SpeechInput
from arborvox.model.encoders.pretrained.attention import use_blocks
from arborvox.model.encoders.pretrained.base_model import BaseModel, missing_extra, read_weights
from arborvox.model.kernels.dispatch import is_exported
from arborvox.model.packing import pack_linear_layers
from arborvox.model.products import take_over_linear_layers


class PretrainedNetwork(nn.Module, ABC):
    """A network of `transformers`, taken apart: what stands before its layers, each layer, a norm.

    `model` holds the weights under the names that `transformers` gives them.
    """

    model: Any  # of `transformers`
    width: int
    frames_a_state: int  # of the input
    max_frames: int | None = None  # what it can hear at once, where that is not any length
    num_silent = 0  # states of silence that stand behind an utterance's own
    prefixes: tuple[str, ...]  # what may stand before a weight's name, longest first

    @classmethod
    @abstractmethod
    def make_input(cls, base: BaseModel) -> SpeechInput:
        """Return what the family takes, from the JSON files alone."""

    @property
    @abstractmethod
    def layers(self) -> nn.ModuleList:
        """Return the layers, lowest first."""

    def hear_silence(self) -> None:
        """Hear the silence behind each utterance that the family was taught with: mostly none."""

    def quantize(self, num_layers: int) -> None:
        """Let the lowest layers multiply 8-bit numbers once they are packed, where they can."""

    @property
    def packed_key(self) -> str:
        """Name what `pack` changes beyond a product's rounding on this processor, for caches."""
        return ""

    @abstractmethod
    def embed(self, frames: Tensor, lens: Tensor) -> tuple[Tensor, Tensor]:
        """Return what the first layer reads, (B, T, M), (B,) -> (B, T', D), (B,).

        Each utterance ends with its `num_silent` states of silence.
        """

    @abstractmethod
    def context(self, x: Tensor, lens: Tensor) -> Any:
        """Return what every layer is told of states of this size, (B, T', D), (B,)."""

    @abstractmethod
    def run_layer(self, number: int, x: Tensor, context: Any) -> Tensor:
        """Run one layer, (B, T', D) -> (B, T', D)."""

    def run_last_layer(self, number: int, x: Tensor, context: Any) -> Tensor:
        """Run the last layer that is read; states of silence may be left out, as none hears them.

        Those of a batch stand at its end, (B, T', D) -> (B, T' or T' - num_silent, D).
        """
        return self.run_layer(number, x, context)

    @property
    def can_join(self) -> bool:
        """Whether `join` and `run_rows` are there: several utterances by the same products."""
        return False

    def join(self, utterances: Sequence[Tensor]) -> tuple[Tensor, Any]:
        """Return what the first layer reads of each, one behind the other, (T, M) each -> (R, D).

        The other is what layers must know of where each one is.
        """
        raise NotImplementedError(f"{type(self).__name__} takes batches alone")

    def run_rows(self, number: int, x: Tensor, rows: Any, left_out: int) -> Tensor:
        """Run one layer on joined utterances, or without the last rows of each."""
        raise NotImplementedError(f"{type(self).__name__} takes batches alone")

    def finish(self, x: Tensor) -> Tensor:
        """Return the last layer's states as the family gives them to others."""
        return x

    def pack(self) -> None:
        """Lay out bf16 weights for the processor, once instead of at every product."""
        pack_linear_layers(self.model)
        use_blocks(self.model)

    def load(self, base: BaseModel) -> None:
        """Fill in the weights; those of other parts of the model, such as a decoder, are left."""
        wanted = self.model.state_dict()
        found: dict[str, Tensor] = {}
        for name, tensor in read_weights(base.folder):
            key = self._own_name(name)
            if key in wanted:
                if tensor.shape != wanted[key].shape:
                    raise ArborvoxError(
                        f"{base.folder}: the weight {name} has shape {tuple(tensor.shape)}, but "
                        f"config.json asks for {tuple(wanted[key].shape)}; use the files of one "
                        f"model together."
                    )
                found[key] = tensor
        missing = [name for name in wanted if name not in found]
        if len(missing) == len(wanted):
            raise ArborvoxError(
                f"{base.folder} holds none of the encoder's weights; a decoder alone cannot listen."
            )
        if missing:
            raise ArborvoxError(
                f"{base.folder}: {len(missing)} of the encoder's {len(wanted)} weights are "
                f"missing, such as {missing[0]}; download the model again."
            )
        self.model.load_state_dict(found)

    def _own_name(self, name: str) -> str:
        """Return a weight's name inside `model`."""
        for prefix in self.prefixes:
            if name.startswith(prefix):
                name = name.removeprefix(prefix)
                break
        # Weight norm was once stored in another way.
        name = name.replace(".weight_g", ".parametrizations.weight.original0")
        return name.replace(".weight_v", ".parametrizations.weight.original1")


def build(library_class: str, config_class: str, base: BaseModel, **changes: Any) -> Any:
    """Build a network of `transformers` with fresh weights, as a config describes it."""
    try:
        import transformers
        from transformers.utils import logging
    except ImportError:
        raise missing_extra() from None
    base.check_sizes()
    logging.set_verbosity_error()  # what matters is said by us
    module, _, name = library_class.rpartition(".")
    try:
        config = getattr(transformers, config_class)(**{**base.config, **changes})
        home = __import__(f"transformers.models.{module}", fromlist=[name])
        network = getattr(home, name)(config)
    except (ValueError, TypeError, KeyError, AttributeError, RuntimeError) as error:
        raise ArborvoxError(
            f"{base.folder / 'config.json'} describes no network that can be built "
            f"({type(error).__name__}: {str(error).splitlines()[0][:200]})."
        ) from None
    take_over_linear_layers(network)
    return network


def key_bias(lens: Tensor, x: Tensor) -> Tensor | None:
    """Return what keeps attention from looking at padding, (B, 1, 1, T'), or None without any."""
    padded = torch.arange(x.shape[1], device=x.device) >= lens[:, None]
    if x.device.type == "cpu" and not is_exported() and not padded.any():
        return None
    bias = torch.zeros(padded.shape, dtype=x.dtype, device=x.device)
    return bias.masked_fill(padded, float("-inf"))[:, None, None, :]
