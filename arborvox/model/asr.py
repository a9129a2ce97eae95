"""The whole network: features in, joint CTC and attention losses or hypotheses' scores out."""

from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from arborvox.config import FeaturesConfig, ModelConfig
from arborvox.errors import ArborvoxError
from arborvox.hsoftmax import OutputLayer
from arborvox.model.ctc import CTC, count_infeasible
from arborvox.model.decoder import Decoder, DecoderCache
from arborvox.model.encoders import ENCODERS, EncoderStates, SpeechEncoder
from arborvox.model.outputs import OutputRequest, make_output
from arborvox.tokens.tokenizer import EOS_ID, PADDING_ID
from arborvox.tree import CodeTree


@dataclass(frozen=True)
class Losses:
    """Sums over a batch; divide `total` by the tokens of all batches and processes of a step.

    One divisor for both branches, known before any gradient: so batches may be cut into pieces and
    spread over processes, and the gradient stays that of the whole.
    """

    total: Tensor  # ctc_weight * ctc + (1 - ctc_weight) * attention
    ctc: Tensor  # sum over utterances of -log P, the middle's part included, without gradient
    attention: Tensor  # sum over tokens and <eos>, label smoothing included, without gradient
    num_tokens: int  # tokens and one <eos> for each utterance
    num_utterances: int
    num_infeasible: int  # utterances with more labels than frames: CTC counts them as 0


class ASR(nn.Module):
    """Encoder, CTC branch and attention decoder; either branch may be absent."""

    def __init__(
        self,
        config: ModelConfig,
        features: FeaturesConfig,
        num_tokens: int,
        tree: CodeTree | None,
        home: Path | None = None,
    ) -> None:
        """Build with fresh weights; `home` is the checkpoint folder that they will come from."""
        super().__init__()
        if tree is not None and tree.num_leaves != num_tokens:
            raise ArborvoxError(
                f"The tree has {tree.num_leaves} leaves, but there are {num_tokens} tokens; "
                f"build the tree from the same tokens."
            )
        self.config, self.num_tokens = config, num_tokens
        self.encoder: SpeechEncoder = ENCODERS[config.encoder](config, features, home)
        self.ctc = CTC(config, num_tokens, tree) if config.ctc_weight > 0 else None
        self.decoder: Decoder | None = None
        self.output: OutputLayer | None = None
        if config.decoder != "none":
            self.decoder = Decoder(config, num_tokens)
            request = OutputRequest(
                config.width, num_tokens, tree, config.label_smoothing, config.smoothing
            )
            self.output = make_output(config.output, "output", request)
        # The decoder learns from the encoder's states, but does not teach it: only CTC does.
        self.decoder_apart = False

    def forward(
        self, features: Tensor, feature_lens: Tensor, tokens: Tensor, token_lens: Tensor
    ) -> Losses:
        """Return the losses of a batch, (B, T, M), (B,), (B, U) padded with -1, (B,)."""
        encoded, encoded_lens, middle = self._encode(features, feature_lens)
        weight = self.config.ctc_weight
        ctc = attention = encoded.new_zeros(
            (), dtype=torch.promote_types(encoded.dtype, torch.float32)
        )
        num_infeasible = 0
        if self.ctc is not None:
            ctc = self.ctc(encoded, encoded_lens, tokens, token_lens).sum()
            if middle is not None:
                early = self.ctc(middle, encoded_lens, tokens, token_lens).sum()
                ctc = (1 - self.config.middle_ctc) * ctc + self.config.middle_ctc * early
            num_infeasible = count_infeasible(encoded_lens, tokens, token_lens)
        if self.decoder is not None:
            heard = encoded.detach() if self.decoder_apart else encoded
            attention = self.attention_nll(heard, encoded_lens, tokens, token_lens).sum()
        return Losses(
            total=weight * ctc + (1 - weight) * attention,
            ctc=ctc.detach(),
            attention=attention.detach(),
            num_tokens=int(token_lens.sum()) + len(token_lens),
            num_utterances=len(token_lens),
            num_infeasible=num_infeasible,
        )

    def encode(self, features: Tensor, feature_lens: Tensor) -> tuple[Tensor, Tensor]:
        """Return encoder states and their lengths, (B, T, M), (B,) -> (B, T', D), (B,)."""
        encoded, encoded_lens, _ = self._encode(features, feature_lens)
        return encoded, encoded_lens

    def _encode(self, features: Tensor, feature_lens: Tensor) -> EncoderStates:
        encoded: EncoderStates = self.encoder(features, feature_lens)
        return encoded

    def ctc_log_probs(self, encoded: Tensor) -> Tensor:
        """Return frame-wise log-probabilities, (B, T', D) -> (B, T', V + 1); the blank is last."""
        if self.ctc is None:
            raise ArborvoxError("This model was trained with ctc_weight 0 and has no CTC branch.")
        return self.ctc.log_probs(encoded)

    def attention_nll(
        self, encoded: Tensor, encoded_lens: Tensor, tokens: Tensor, token_lens: Tensor
    ) -> Tensor:
        """Return the output layer's loss of every token and <eos>, (N,), utterance by utterance."""
        decoder, output = self._attention()
        inputs, targets = shift_right(tokens, token_lens)
        states = decoder(encoded, encoded_lens, inputs)
        real = targets != PADDING_ID
        return output.nll(states[real], targets[real])

    def start(
        self, encoded: Tensor, encoded_lens: Tensor, num_beams: int, max_tokens: int
    ) -> DecoderCache:
        """Begin a search: keys and values of the frames are computed here, once."""
        return self._attention()[0].start(encoded, encoded_lens, num_beams, max_tokens)

    def step(self, tokens: Tensor, cache: DecoderCache) -> Tensor:
        """Feed the newest token of each beam, (B, K), <eos> at the start -> states (B, K, D)."""
        return self._attention()[0].step(tokens, cache)

    def _attention(self) -> tuple[Decoder, OutputLayer]:
        if self.decoder is None or self.output is None:
            raise ArborvoxError("This model has no attention decoder; decode it with CTC.")
        return self.decoder, self.output


def shift_right(tokens: Tensor, token_lens: Tensor) -> tuple[Tensor, Tensor]:
    """Return decoder inputs (<eos> first) and targets (<eos> last, -1 after), (B, U + 1) each."""
    B, U = tokens.shape
    inputs = torch.cat((tokens.new_full((B, 1), EOS_ID), tokens.clamp(min=0)), dim=1)
    targets = torch.cat((tokens, tokens.new_full((B, 1), PADDING_ID)), dim=1)
    place = torch.arange(U + 1, device=tokens.device)
    targets = targets.masked_fill(place > token_lens[:, None], PADDING_ID)
    return inputs, targets.masked_fill(place == token_lens[:, None], EOS_ID)
