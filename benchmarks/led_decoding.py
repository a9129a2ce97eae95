"""A network whose beams go a way that is laid down beforehand, the same for every output layer.

Untrained layers lead their beams along unlike paths: how much of their past the beams share, and so
how large the decoder's cache is, would differ by chance and hide what the layers cost.
"""

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from taking_turns import Pause, go_on

from arborvox.decode.attention import attention_beam
from arborvox.decode.ctc import align_hypothesis
from arborvox.decode.hypothesis import Hypothesis
from arborvox.decode.network import Network
from arborvox.decode.settings import BeamSettings
from arborvox.model.asr import ASR
from arborvox.tokens.tokenizer import EOS_ID

NUM_MELS = 80
FRAMES_PER_S = 100
# Mean distance of a candidate's log P from the next better one. At 1 the best of them has about two
# thirds of the probability, and the beams share most of their past, as those of trained models do.
MEAN_STEP = 1.0

Candidates = tuple[NDArray[np.float32], NDArray[np.int64]]


class LedNetwork(Network):
    """Does all the work of a network, then answers with made-up candidates for the next token."""

    def __init__(
        self,
        model: ASR,
        *,
        precision: str,
        tokens: Sequence[int],
        inventory: Sequence[int] | None = None,
    ) -> None:
        """Prepare a model; the made-up candidates are taken from `tokens`."""
        super().__init__(model, precision=precision, inventory=inventory)
        self._tokens = np.array([token for token in tokens if token != EOS_ID])
        self._way: dict[tuple[int, ...], Candidates] = {}
        self._step = 0
        self._pause: Pause = go_on
        for layer in self._model.encoder.layers:
            layer.register_forward_hook(lambda *_: self._pause())

    def return_to_start(self, pause: Pause) -> None:
        """Begin another search that pauses after each token, and after each layer before that."""
        self._step, self._pause = 0, pause

    def topk(self, states: torch.Tensor, k: int) -> Candidates:
        """Search as always, and return what was laid down for this step, (B, K, k) each."""
        super().topk(states, k)
        key = (self._step, *states.shape[:2], k)
        self._step += 1
        if key not in self._way:
            self._way[key] = self._lay_down(*key)
        self._pause()
        return self._way[key]

    def _lay_down(self, step: int, B: int, K: int, k: int) -> Candidates:
        chance = np.random.default_rng(step)
        values = -chance.exponential(MEAN_STEP, (B, K, k)).cumsum(axis=2)
        order = chance.random((B, K, len(self._tokens))).argsort(axis=2)[..., :k]
        return values.astype(np.float32), self._tokens[order]


def random_features(batch: int, seconds: float) -> torch.Tensor:
    """Return what stands for speech, (B, T, M)."""
    generator = torch.Generator().manual_seed(1)
    return torch.randn(batch, round(seconds * FRAMES_PER_S), NUM_MELS, generator=generator)


@torch.inference_mode()
def decode_led(
    network: LedNetwork,
    *,
    pause: Pause = go_on,
    batch: int,
    seconds: float,
    num_tokens: int,
    beam: int,
    ctc_weight: float = 0.0,
    align: bool = False,
) -> list[Hypothesis]:
    """Decode once, exactly `num_tokens` tokens; `align` asks CTC for times, as `decode` does."""
    features = random_features(batch, seconds)
    lens = torch.full((batch,), features.shape[1])
    settings = BeamSettings(
        beam=beam, ctc_weight=ctc_weight, min_tokens=num_tokens, max_tokens=num_tokens
    )
    network.return_to_start(pause)
    encoded = network.encode(features, lens)
    found = [best[0] for best in attention_beam(network, encoded, settings)]
    if align:
        scores, frame_lens = network.ctc_scores(encoded), encoded.lens.tolist()
        found = [align_hypothesis(scores, b, frame_lens[b], best) for b, best in enumerate(found)]
    return found
