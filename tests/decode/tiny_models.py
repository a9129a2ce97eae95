"""The vocabulary of the tiny models, and a batch cut into its utterances."""

from collections.abc import Callable

from torch import Tensor

from arborvox.model.asr import ASR

NUM_MELS = 16
UNITS = ("<eos>", "<unk>", "a", "b", "c", "d", "e")
COUNTS = (9, 1, 30, 4, 12, 2, 7)

MakeModel = Callable[..., ASR]
Speech = tuple[Tensor, Tensor]  # (B, T, M), (B,)


def one_by_one(speech: Speech) -> list[Speech]:
    """Cut a batch into its utterances, without padding."""
    features, lens = speech
    return [(features[b : b + 1, :n], lens[b : b + 1]) for b, n in enumerate(lens.tolist())]
