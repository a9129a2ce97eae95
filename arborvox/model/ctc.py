"""The CTC branch: a second output layer over the frames, with the blank as its last token."""

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from arborvox.config import ModelConfig
from arborvox.hsoftmax import HierarchicalSoftmax
from arborvox.model.kernels.ctc import CTCLoss
from arborvox.model.kernels.dispatch import suits_kernel
from arborvox.model.outputs import OUTPUTS, OutputRequest, make_output
from arborvox.tree import CodeTree

# Between peaks a CTC model says blank: about half of all frames at four frames a step.
BLANK_SHARE = 0.5
# Beyond this share of the vocabulary, leaving out the other tokens costs more than it saves.
MOST_OF_ALL = 0.5


class CTC(nn.Module):
    """Frames to tokens without a decoder; the blank is token V."""

    def __init__(self, config: ModelConfig, num_tokens: int, tree: CodeTree | None) -> None:
        super().__init__()
        self.blank = num_tokens
        with_blank = None
        if tree is not None and OUTPUTS[config.ctc].needs_tree:
            with_blank = tree.with_leaf(BLANK_SHARE)
        request = OutputRequest(config.width, num_tokens + 1, with_blank)
        self.output = make_output(config.ctc, "ctc", request)

    def log_probs(self, encoded: Tensor) -> Tensor:
        """Return log-probabilities of tokens and blank in fp32, (B, T, D) -> (B, T, V + 1)."""
        return self.output.log_probs(encoded.flatten(0, 1)).view(*encoded.shape[:2], -1)

    def forward(
        self, encoded: Tensor, encoded_lens: Tensor, tokens: Tensor, token_lens: Tensor
    ) -> Tensor:
        """Return -log P(tokens) of each utterance, (B,); 0 where the frames cannot hold them."""
        log_probs, tokens, blank = self._scores(encoded, tokens)
        if suits_kernel("ctc", log_probs, dtype=torch.float32):
            losses: Tensor = CTCLoss.apply(  # type: ignore[no-untyped-call]
                log_probs, tokens, encoded_lens, token_lens, blank
            )
            return losses
        return functional.ctc_loss(
            log_probs.transpose(0, 1),
            tokens.clamp(min=0),
            encoded_lens,
            token_lens,
            blank=blank,
            reduction="none",
            zero_infinity=True,
        )

    def _scores(self, encoded: Tensor, tokens: Tensor) -> tuple[Tensor, Tensor, int]:
        """Return log-probabilities, (B, T, n), and the places of tokens, -1 as padding, and blank.

        The loss asks for a batch's own tokens only. A tree gives their probabilities without all
        others; a softmax has to sum over all.
        """
        if isinstance(self.output, HierarchicalSoftmax) and encoded.device.type == "cpu":
            ids = np.unique(np.append(tokens[tokens >= 0].numpy(), self.blank))
            if len(ids) <= MOST_OF_ALL * self.output.num_tokens:
                scores = self.output.log_probs_of(encoded.flatten(0, 1), ids)
                places = torch.searchsorted(torch.from_numpy(ids), tokens)
                places = places.masked_fill(tokens < 0, -1)
                return scores.view(*encoded.shape[:2], -1), places, len(ids) - 1
        return self.log_probs(encoded), tokens, self.blank


def count_infeasible(encoded_lens: Tensor, tokens: Tensor, token_lens: Tensor) -> int:
    """Count utterances whose frames are too few for their tokens and the blanks between repeats."""
    repeats = (tokens[:, 1:] == tokens[:, :-1]) & (tokens[:, 1:] >= 0)
    return int((encoded_lens < token_lens + repeats.sum(1)).sum())
