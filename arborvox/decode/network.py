"""A trained model as searches see it: in the fastest type, with its outputs, and with a clock."""

import copy
from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from arborvox.decode.encoded import STAGES as STAGES
from arborvox.decode.encoded import CtcScores as CtcScores
from arborvox.decode.encoded import Encoded as Encoded
from arborvox.decode.encoded import StageClock
from arborvox.decode.encoded_memory import EncodedMemory, KeptBatch
from arborvox.errors import ArborvoxError
from arborvox.hsoftmax import HierarchicalSoftmax, OutputLayer
from arborvox.hsoftmax.restricted import choice_log_probs, choices, restrict
from arborvox.model.asr import ASR
from arborvox.model.decoder import Decoder, DecoderCache
from arborvox.model.packing import pack_linear_layers
from arborvox.model.precision import choose_precision
from arborvox.model.transfer import to_device
from arborvox.tree import CodeTree
from arborvox.vocabulary import EOS_ID


class Network:
    """A model made ready for decoding; the original is left as it is.

    In bf16 encoder and decoder are converted once; the output layers stay in fp32, so that
    scores are as exact as they were trained.
    """

    def __init__(
        self,
        model: ASR,
        *,
        precision: str = "fp32",
        inventory: Sequence[int] | None = None,
        device: torch.device | None = None,
    ) -> None:
        """Copy the model, to another device if one is named."""
        self.blank = model.num_tokens
        self.device = next(model.parameters()).device if device is None else device
        self.precision = choose_precision(precision, self.device, model.config.width)
        self.clock = StageClock()
        self.memory: EncodedMemory | None = None  # of what was encoded, if several searches ask
        self._model = copy.deepcopy(model).to(self.device).eval().requires_grad_(False)
        if self.precision == "bf16":
            for part in (self._model.encoder, self._model.decoder):
                if part is not None:
                    part.bfloat16()
        if self.device.type == "cpu":
            if self._model.encoder.gains_by_packing(self.precision):
                self._model.encoder.pack()
            if self._model.decoder is not None:
                pack_linear_layers(self._model.decoder)
        # Smoothing belongs to training: here a score is the log-probability itself.
        if self._model.output is not None:
            self._model.output.label_smoothing = 0.0
        self.restrict(inventory)

    def restrict(self, inventory: Sequence[int] | None) -> None:
        """Let only these tokens be written, <eos> always, or all for None; nothing is reloaded."""
        self._output: OutputLayer | None = self._model.output
        self._ctc_output: OutputLayer | None = (
            None if self._model.ctc is None else self._model.ctc.output
        )
        if inventory is not None:
            if self._output is not None:
                self._output = restrict(self._output, [EOS_ID, *inventory]).to(self.device)
            if self._ctc_output is not None:
                allowed = [EOS_ID, *inventory, self.blank]
                self._ctc_output = restrict(self._ctc_output, allowed).to(self.device)
        if self._ctc_output is not None:
            self._labels = choices(self._ctc_output)
            self._columns = np.zeros(self.blank + 1, np.int64)
            self._columns[self._labels] = np.arange(len(self._labels))

    @property
    def has_ctc(self) -> bool:
        """Whether there is a CTC branch."""
        return self._ctc_output is not None

    @property
    def has_attention(self) -> bool:
        """Whether there is an attention decoder."""
        return self._output is not None

    @property
    def num_choices(self) -> int:
        """How many tokens the decoder may choose from."""
        return len(choices(self._attention_output()))

    def encode(self, features: Tensor, feature_lens: Tensor) -> Encoded:
        """Encode features, (B, T, M), (B,), or remember what was made of them."""
        known = None if self.memory is None else self.memory.recall(features, feature_lens)
        if known is not None:
            self.clock.charge_earlier("encoder", known.encoder_s)
            return Encoded(known.states, known.lens)
        before_s = self.clock.seconds["encoder"]
        with self.clock("encoder"):
            states, lens = self._model.encode(*to_device((features, feature_lens), self.device))
            encoded = Encoded(states, lens.cpu().numpy())
        if self.memory is not None:
            took_s = self.clock.seconds["encoder"] - before_s
            self.memory.keep(features, feature_lens, KeptBatch(states, encoded.lens, took_s))
        return encoded

    def ctc_scores(self, encoded: Encoded) -> CtcScores:
        """Return log-probabilities of tokens and blank in each frame."""
        if encoded.ctc is None:
            with self.clock("output"):
                log_probs = choice_log_probs(self._ctc(), encoded.states.flatten(0, 1))
                frames = _array(log_probs).reshape(*encoded.states.shape[:2], -1)
                encoded.ctc = CtcScores(frames, self._labels, self._columns)
        return encoded.ctc

    def ctc_best(self, encoded: Encoded) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """Return the best label of each frame and its log-probability, (B, T') each."""
        with self.clock("output"):
            values, ids = self._ctc().topk(encoded.states.flatten(0, 1), 1)
            shape = encoded.states.shape[:2]
            return _array(values).reshape(shape), ids.cpu().numpy().reshape(shape)

    def start(self, encoded: Encoded, num_beams: int, max_tokens: int) -> DecoderCache:
        """Begin a search: keys and values of the frames are computed here, once."""
        with self.clock("decoder"):
            return self._decoder().start(encoded.states, self._lens(encoded), num_beams, max_tokens)

    def keep(self, cache: DecoderCache, utterances: NDArray[np.int64]) -> None:
        """Go on with these utterances only, (B',)."""
        cache.keep(torch.from_numpy(utterances).to(self.device))

    def reorder(self, cache: DecoderCache, parents: NDArray[np.int64]) -> None:
        """Let beam k of utterance b go on from beam parents[b, k], (B, K')."""
        cache.reorder(torch.from_numpy(parents).to(self.device))

    def step(self, tokens: NDArray[np.int64], cache: DecoderCache) -> Tensor:
        """Feed the newest token of each beam, (B, K), -> states (B, K, D)."""
        with self.clock("decoder"):
            return self._decoder().step(torch.from_numpy(tokens).to(self.device), cache)

    def read_tree(
        self,
        encoded: Encoded,
        tokens: NDArray[np.int64],
        depths: NDArray[np.int64],
        past: NDArray[np.bool_],
    ) -> Tensor:
        """Return the decoder's states at the nodes of prefix trees, (B, Q, D)."""
        inputs = (torch.from_numpy(array).to(self.device) for array in (tokens, depths, past))
        with self.clock("decoder"):
            return self._decoder().read_tree(encoded.states, self._lens(encoded), *inputs)

    def topk(self, states: Tensor, k: int) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """Return the k best log-probabilities and their tokens, (B, K, D) -> (B, K, k) each."""
        with self.clock("output"):
            values, ids = self._attention_output().topk(states.flatten(0, 1), k)
            shape = (*states.shape[:2], k)
            return _array(values).reshape(shape), ids.cpu().numpy().reshape(shape)

    def token_log_probs(
        self, states: Tensor, rows: NDArray[np.int64], tokens: NDArray[np.int64]
    ) -> NDArray[np.float32]:
        """Return log P of a token after each of some states, (B, Q, D), (N,), (N,) -> (N,)."""
        with self.clock("output"):
            targets = torch.from_numpy(tokens).to(self.device)
            chosen = states.flatten(0, 1)[torch.from_numpy(rows).to(self.device)]
            return _array(-self._attention_output().nll(chosen, targets))

    def _lens(self, encoded: Encoded) -> Tensor:
        return torch.from_numpy(encoded.lens).to(self.device)

    def decoder_log_probs(self, states: Tensor) -> NDArray[np.float32]:
        """Return log P of every token that the decoder may choose, (N, D) -> (N, choices)."""
        with self.clock("output"):
            return _array(choice_log_probs(self._attention_output(), states))

    @property
    def decoder_choices(self) -> NDArray[np.int64]:
        """The tokens that the decoder may choose, rising."""
        return choices(self._attention_output())

    @property
    def ctc_tree(self) -> CodeTree | None:
        """The whole tree of the CTC branch, blank included, if it has one."""
        return None if self._model.ctc is None else _tree_of(self._model.ctc.output)

    @property
    def decoder_tree(self) -> CodeTree | None:
        """The whole tree of the decoder's output layer, if it has one."""
        return _tree_of(self._model.output)

    def _decoder(self) -> Decoder:
        self._attention_output()
        decoder = self._model.decoder
        assert decoder is not None
        return decoder

    def _attention_output(self) -> OutputLayer:
        if self._output is None:
            raise ArborvoxError("This model has no attention decoder; decode it with CTC.")
        return self._output

    def _ctc(self) -> OutputLayer:
        if self._ctc_output is None:
            raise ArborvoxError(
                "This model has no CTC branch; decode it with attention-greedy or attention-beam."
            )
        return self._ctc_output


def _tree_of(layer: OutputLayer | None) -> CodeTree | None:
    return layer.tree if isinstance(layer, HierarchicalSoftmax) else None


def _array(scores: Tensor) -> NDArray[np.float32]:
    return scores.float().cpu().numpy()
