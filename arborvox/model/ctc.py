"""The CTC branch: a second output layer over the frames, with the blank as its last token."""

import torch
from torch import Tensor, nn
from torch.nn import functional

from arborvox.config import ModelConfig
from arborvox.model.kernels.ctc import CTCLoss
from arborvox.model.kernels.dispatch import suits_kernel
from arborvox.model.outputs import OUTPUTS, OutputRequest, make_output
from arborvox.tree import CodeTree

# Between peaks a CTC model says blank: about half of all frames at four frames a step.
BLANK_SHARE = 0.5


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
        log_probs = self.log_probs(encoded)  # (B, T, V + 1)
        if suits_kernel("ctc", log_probs, dtype=torch.float32):
            losses: Tensor = CTCLoss.apply(  # type: ignore[no-untyped-call]
                log_probs, tokens, encoded_lens, token_lens, self.blank
            )
            return losses
        return functional.ctc_loss(
            log_probs.transpose(0, 1),
            tokens.clamp(min=0),
            encoded_lens,
            token_lens,
            blank=self.blank,
            reduction="none",
            zero_infinity=True,
        )


def count_infeasible(encoded_lens: Tensor, tokens: Tensor, token_lens: Tensor) -> int:
    """Count utterances whose frames are too few for their tokens and the blanks between repeats."""
    repeats = (tokens[:, 1:] == tokens[:, :-1]) & (tokens[:, 1:] >= 0)
    return int((encoded_lens < token_lens + repeats.sum(1)).sum())
