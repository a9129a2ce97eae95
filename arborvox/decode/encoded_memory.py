"""What the encoder made of a test set, kept for the next search of the same model.

A comparison searches one model in several ways, and encoding is half of the work or more. Each
search is still charged with what the encoding took, as if it had been the only one.
"""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from arborvox.features import digest_tensors

MOST_BYTES = 2**30  # some twenty hours of speech in states of 256 numbers every 40 ms


@dataclass(frozen=True)
class KeptBatch:
    """Encoded utterances, and the seconds that they took."""

    states: Tensor  # (B, T', D)
    lens: NDArray[np.int64]  # (B,)
    encoder_s: float


@dataclass
class EncodedMemory:
    """Encoded batches of one model at a time, by what went in; bounded."""

    most_bytes: int = MOST_BYTES
    _model: str = ""
    _kept: dict[str, KeptBatch] = field(default_factory=dict)
    _num_bytes: int = 0

    def turn_to(self, model: str) -> None:
        """Go on with a model, and forget what another one said."""
        if model != self._model:
            self._model, self._num_bytes = model, 0
            self._kept.clear()

    def recall(self, features: Tensor, lens: Tensor) -> KeptBatch | None:
        """Return what was made of a batch, (B, T, M), (B,), if it is there."""
        return self._kept.get(_key(features, lens)) if self._kept else None

    def keep(self, features: Tensor, lens: Tensor, batch: KeptBatch) -> None:
        """Keep what was made of a batch, unless there is too much of it."""
        num_bytes = batch.states.nbytes
        if self._num_bytes + num_bytes <= self.most_bytes:
            self._num_bytes += num_bytes
            self._kept[_key(features, lens)] = batch


def _key(features: Tensor, lens: Tensor) -> str:
    return digest_tensors({"features": features, "lens": lens})
