"""An exported model as searches see it: onnxruntime's sessions, NumPy's arrays."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from arborvox.decode.encoded import CtcScores, Encoded, StageClock
from arborvox.errors import ArborvoxError, one_line
from arborvox.runtime.graph_safety import check_graph
from arborvox.runtime.manifest import (
    DECODER,
    ENCODER,
    FRAMES,
    METADATA_KEY,
    read_description,
    read_files,
)
from arborvox.runtime.outputs import GateOutput, PlainOutput, RestrictedOutput, ScoreOutput
from arborvox.vocabulary import EOS_ID

Samples = NDArray[np.float32]


def open_session(data: bytes, name: str, num_threads: int) -> Any:
    """Hand a graph that was looked through to onnxruntime."""
    try:
        import onnxruntime
    except ImportError:
        raise ArborvoxError(
            "An export runs on onnxruntime, which is not installed: pip install onnxruntime."
        ) from None
    check_graph(data, name)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = num_threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    try:
        return onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # its own kinds of error share no other base
        reason = one_line(str(error))
        raise ArborvoxError(f"{name} is no graph that onnxruntime can run ({reason}).") from None


@dataclass
class SearchCache:
    """What a search keeps between two tokens, for B utterances with K beams each.

    As in torch: every token that any beam wrote has a slot, and a beam knows which are its past.
    The first slot is nobody's, so that there always is one.
    """

    cross: NDArray[np.float32]  # (L, 2, B, H, T, d)
    lens: NDArray[np.int64]  # (B,)
    own: NDArray[np.float32]  # (L, 2, B, H, slots, d)
    past: NDArray[np.bool_]  # (B, K, slots)
    length: int = 0


class ExportNetwork:
    """The graphs of an export with the outputs that an inventory leaves."""

    def __init__(self, folder: Path, num_threads: int = 0) -> None:
        """Open an export; 0 threads: as many as onnxruntime likes."""
        files = read_files(folder)
        self._encoder = open_session(files[ENCODER], str(folder / ENCODER), num_threads)
        metadata: Mapping[str, str] = self._encoder.get_modelmeta().custom_metadata_map
        self.description = read_description(folder / ENCODER, metadata.get(METADATA_KEY))
        self._frames = self._decoder = None
        if self.description.has_decoder:
            if not {FRAMES, DECODER} <= set(files):
                raise ArborvoxError(f"{folder} is not whole: its decoder is missing.")
            self._frames = open_session(files[FRAMES], str(folder / FRAMES), num_threads)
            self._decoder = open_session(files[DECODER], str(folder / DECODER), num_threads)
        self._check_outputs(folder)
        self.clock = StageClock()
        self.blank = len(self.description.vocabulary)
        self.restrict(None)

    def _check_outputs(self, folder: Path) -> None:
        """Refuse graphs that do not give what the description says."""
        known = self.description
        outputs = {output.name: output.shape for output in self._encoder.get_outputs()}
        if known.has_ctc != ("ctc" in outputs) or not {"states", "state_lens"} <= set(outputs):
            raise ArborvoxError(f"{folder / ENCODER} does not give what its metadata says.")
        wanted = [("ctc", outputs.get("ctc"), known.ctc_tree, len(known.vocabulary) + 1)]
        if self._decoder is not None:
            scores = {output.name: output.shape for output in self._decoder.get_outputs()}
            size = len(known.vocabulary)
            wanted.append(("scores", scores.get("scores"), known.output_tree, size))
        for name, shape, tree, size in wanted:
            if name == "ctc" and not known.has_ctc:
                continue
            if not shape or shape[-1] != size - (tree is not None):
                raise ArborvoxError(
                    f"{folder}: the graphs' output {name} does not fit the {size} tokens."
                )

    def restrict(self, inventory: Sequence[int] | None) -> None:
        """Let only these tokens be written, <eos> always, or all for None; nothing is reloaded."""
        known = self.description
        size = len(known.vocabulary)
        self._output: ScoreOutput = (
            PlainOutput(size) if known.output_tree is None else GateOutput(known.output_tree)
        )
        self._ctc_output: ScoreOutput = (
            PlainOutput(size + 1) if known.ctc_tree is None else GateOutput(known.ctc_tree)
        )
        if inventory is not None:
            self._output = RestrictedOutput(self._output, [EOS_ID, *inventory])
            allowed = [EOS_ID, *inventory, self.blank]
            self._ctc_output = RestrictedOutput(self._ctc_output, allowed)
        self._labels = self._ctc_output.choices
        self._columns = np.zeros(size + 1, np.int64)
        self._columns[self._labels] = np.arange(len(self._labels))

    @property
    def has_ctc(self) -> bool:
        """Whether there is a CTC branch."""
        return self.description.has_ctc

    @property
    def num_choices(self) -> int:
        """How many tokens the decoder may choose from."""
        return len(self._output.choices)

    def encode(self, samples: Sequence[Samples]) -> Encoded:
        """Encode utterances, (S,) each."""
        lens = np.array([len(values) for values in samples], np.int64)
        longest = max(int(lens.max()), self.description.min_samples)
        padded = np.zeros((len(samples), longest), np.float32)
        for row, values in zip(padded, samples, strict=True):
            row[: len(values)] = values
        with self.clock("encoder"):
            found = self._encoder.run(None, {"samples": padded, "lens": np.maximum(lens, 1)})
        states, state_lens, *ctc = found
        return Encoded((states, *ctc), state_lens)

    def ctc_scores(self, encoded: Encoded) -> CtcScores:
        """Return log-probabilities of tokens and blank in each frame."""
        if encoded.ctc is None:
            with self.clock("output"):
                rows = self._ctc_rows(encoded)
                found = self._ctc_output.log_probs(rows)
                frames = found.reshape(*encoded.states[1].shape[:2], -1)
                encoded.ctc = CtcScores(frames, self._labels, self._columns)
        return encoded.ctc

    def ctc_best(self, encoded: Encoded) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """Return the best label of each frame and its log-probability, (B, T') each."""
        with self.clock("output"):
            values, ids = self._ctc_output.topk(self._ctc_rows(encoded), 1)
            shape = encoded.states[1].shape[:2]
            return values.reshape(shape), ids.reshape(shape)

    def _ctc_rows(self, encoded: Encoded) -> NDArray[np.float32]:
        if not self.has_ctc:
            raise ArborvoxError(
                "This model has no CTC branch; decode it with attention-greedy or attention-beam."
            )
        scores: NDArray[np.float32] = encoded.states[1]
        return scores.reshape(-1, scores.shape[-1])

    def start(self, encoded: Encoded, num_beams: int, max_tokens: int) -> SearchCache:
        """Begin a search: keys and values of the frames are computed here, once."""
        known = self.description
        with self.clock("decoder"):
            cross = self._cross(encoded)
        B = len(encoded)
        own = np.zeros((known.layers, 2, B, known.heads, 1, known.head_size), np.float32)
        return SearchCache(cross, encoded.lens, own, np.zeros((B, 1, 1), np.bool_))

    def keep(self, cache: SearchCache, utterances: NDArray[np.int64]) -> None:
        """Go on with these utterances only, (B',)."""
        cache.cross, cache.own = cache.cross[:, :, utterances], cache.own[:, :, utterances]
        cache.lens, cache.past = cache.lens[utterances], cache.past[utterances]

    def reorder(self, cache: SearchCache, parents: NDArray[np.int64]) -> None:
        """Let beam k of utterance b go on from beam parents[b, k], (B, K'); K may change."""
        cache.past = np.take_along_axis(cache.past, parents[:, :, None], axis=1)
        alive = np.asarray(cache.past.any(axis=(0, 1)))
        alive[0] = True
        if alive.mean() < 0.5:  # slots that no beam reads any more
            cache.own = np.ascontiguousarray(cache.own[:, :, :, :, alive])
            cache.past = cache.past[:, :, alive]

    def step(self, tokens: NDArray[np.int64], cache: SearchCache) -> NDArray[np.float32]:
        """Feed the newest token of each beam, (B, K), -> scores of what follows, (B, K, C)."""
        B, K = tokens.shape
        itself = np.broadcast_to(np.eye(K, dtype=np.bool_), (B, K, K))
        before = np.broadcast_to(cache.past, (B, K, cache.past.shape[2]))
        cache.past = np.concatenate((before, itself), axis=2)
        depths = np.full((B, K), cache.length)
        with self.clock("decoder"):
            scores, new = self._read(tokens, depths, cache.past, cache.own, cache.cross, cache.lens)
        cache.own = np.concatenate((cache.own, new), axis=4)
        cache.length += 1
        return scores

    def read_tree(
        self,
        encoded: Encoded,
        tokens: NDArray[np.int64],
        depths: NDArray[np.int64],
        past: NDArray[np.bool_],
    ) -> NDArray[np.float32]:
        """Return the scores of what follows the nodes of prefix trees, (B, Q, C)."""
        known = self.description
        B, Q = tokens.shape
        own = np.zeros((known.layers, 2, B, known.heads, 1, known.head_size), np.float32)
        nobody = np.zeros((B, Q, 1), np.bool_)
        with self.clock("decoder"):
            scores, _ = self._read(
                tokens,
                depths,
                np.concatenate((nobody, past), axis=2),
                own,
                self._cross(encoded),
                encoded.lens,
            )
        return scores

    def topk(
        self, states: NDArray[np.float32], k: int
    ) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """Return the k best log-probabilities and their tokens, (B, K, C) -> (B, K, k) each."""
        with self.clock("output"):
            values, ids = self._output.topk(states.reshape(-1, states.shape[-1]), k)
            shape = (*states.shape[:2], k)
            return values.reshape(shape), ids.reshape(shape)

    def token_log_probs(
        self, states: NDArray[np.float32], rows: NDArray[np.int64], tokens: NDArray[np.int64]
    ) -> NDArray[np.float32]:
        """Return log P of a token after each of some states, (B, Q, C), (N,), (N,) -> (N,)."""
        with self.clock("output"):
            found = self._output.log_probs(states.reshape(-1, states.shape[-1])[rows])
            places = np.searchsorted(self._output.choices, tokens)
            return found[np.arange(len(tokens)), places]

    def _cross(self, encoded: Encoded) -> NDArray[np.float32]:
        if self._frames is None:
            raise ArborvoxError("This model has no attention decoder; decode it with CTC.")
        cross: NDArray[np.float32] = self._frames.run(None, {"states": encoded.states[0]})[0]
        return cross

    def _read(
        self,
        tokens: NDArray[np.int64],
        depths: NDArray[np.int64],
        past: NDArray[np.bool_],
        own: NDArray[np.float32],
        cross: NDArray[np.float32],
        state_lens: NDArray[np.int64],
    ) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        assert self._decoder is not None
        inputs = {
            "tokens": tokens.astype(np.int64),
            "depths": depths.astype(np.int64),
            "past": np.ascontiguousarray(past),
            "own": np.ascontiguousarray(own),
            "cross": np.ascontiguousarray(cross),
            "state_lens": state_lens.astype(np.int64),
        }
        scores, new = self._decoder.run(None, inputs)
        return scores, new
