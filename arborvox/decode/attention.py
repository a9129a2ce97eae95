"""Search with the attention decoder: a beam, alone or joint with CTC; a beam of one is greedy."""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from arborvox.decode import beam_kernels, ctc_kernels
from arborvox.decode.automaton import LanguageModel
from arborvox.decode.encoded import Encoded, SearchNetwork
from arborvox.decode.hypothesis import Hypothesis
from arborvox.decode.settings import BeamSettings
from arborvox.kernels.threads import run_split
from arborvox.vocabulary import EOS_ID

# An end has to be almost as likely as the likeliest token: a ratio of log-probabilities, as in
# Hannun and others, "Sequence-to-sequence speech recognition with time-depth separable
# convolutions", Interspeech 2019.
END_RATIO = 1.5
# Less is not told apart from never: below this float32 is inexact, and slow on many processors.
LEAST_PROBABILITY = float(np.finfo(np.float32).tiny)


def attention_beam(
    network: SearchNetwork, encoded: Encoded, settings: BeamSettings
) -> list[list[Hypothesis]]:
    """Keep the best `beam` hypotheses, finished ones included, and return the best of them.

    With a CTC weight the score is (1 - w) log P by the decoder + w log P by CTC, where CTC counts
    all transcripts that begin as an unfinished hypothesis does.
    """
    K, choices = settings.beam, network.num_choices
    longest = encoded.lens.max().item() if settings.max_tokens is None else settings.max_tokens
    beams = _Beams(settings, encoded.lens, int(longest))
    prefixes = _CtcPrefixes(network, encoded, K) if settings.ctc_weight > 0 else None
    # Other scores reorder what the decoder proposes; without them no more than K can be chosen.
    reordered = prefixes is not None or settings.lm is not None
    active = np.arange(len(encoded))
    tokens = np.full((len(active), 1), EOS_ID)
    cache = network.start(encoded, K, int(beams.limits.max()))
    for step in range(int(beams.limits.max())):
        states = network.step(tokens, cache)
        num_proposed = 2 * K if reordered else K
        k = min(choices, num_proposed + (step < settings.min_tokens))
        values, ids = network.topk(states, k)
        ctc_scores = None
        if prefixes is not None:
            ctc_scores = prefixes.score(step, beams.live, active, ids)
        tokens, parents = beams.advance(step, active, values, ids, ctc_scores)
        going_on = ~beams.are_done(active)
        if not going_on.any():
            break
        if prefixes is not None:
            prefixes.extend(step, beams.live, active, parents, tokens)
        if not going_on.all():
            network.keep(cache, np.flatnonzero(going_on))
            active, tokens, parents = active[going_on], tokens[going_on], parents[going_on]
        width = beams.live[active].max()
        tokens, parents = np.ascontiguousarray(tokens[:, :width]), parents[:, :width]
        network.reorder(cache, parents)
    return [beams.hypotheses(b) for b in range(len(encoded))]


def attention_alone(
    network: SearchNetwork, encoded: Encoded, settings: BeamSettings
) -> list[list[Hypothesis]]:
    """Search by the decoder alone, which ends a hypothesis only where an end is likely.

    Scores fall with every token, so that of all the places where a hypothesis could end, one of
    the first would win: an unlikely end costs less than a long sentence. CTC, where it has a say,
    knows that there is speech left.
    """
    return attention_beam(network, encoded, replace(settings, end_ratio=END_RATIO))


class _Beams:
    """The state of a search: living and finished hypotheses of B utterances, and their history."""

    def __init__(self, settings: BeamSettings, frame_lens: NDArray[np.int64], longest: int) -> None:
        B, K = len(frame_lens), settings.beam
        self.settings = settings
        self.limits = np.minimum(frame_lens, longest)
        self.live = np.ones(B, np.int64)  # beams, in the first places
        self._lm = LanguageModel.none() if settings.lm is None else settings.lm
        self._totals = np.zeros((B, K))
        self._lm_states = np.full((B, K), self._lm.first_state, np.int32)
        self._num_finished = np.zeros(B, np.int64)
        self._finished_scores = np.empty((B, K))
        self._finished_nodes = np.empty((B, K, 2), np.int64)
        self._best_live = np.zeros(B)
        steps = int(self.limits.max())
        self._history = np.empty((steps, 2, B, K), np.int32)  # tokens and parents
        self._history_values = np.empty((steps, B, K), np.float32)

    def advance(
        self,
        step: int,
        active: NDArray[np.int64],
        values: NDArray[np.float32],
        ids: NDArray[np.int64],
        ctc_scores: NDArray[np.float64] | None,
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Choose among continuations (A, K, C); return newest tokens and parents, (A, K) each."""
        settings, shape = self.settings, (len(active), self.settings.beam)
        tokens, parents = np.full(shape, EOS_ID), np.zeros(shape, np.int64)
        before = self._best_live[active]
        beam_kernels.choose_continuations(
            step, settings.min_tokens, settings.end_ratio,
            1.0 - settings.ctc_weight, settings.ctc_weight, settings.lm_weight,
            settings.length_bonus, self._lm, active, values, ids,
            np.empty((0, 0, 0)) if ctc_scores is None else ctc_scores,
            self.limits, self.live, self._totals, self._lm_states,
            self._num_finished, self._finished_scores, self._finished_nodes,
            self._history, self._history_values, tokens, parents, self._best_live,
        )  # fmt: skip
        # CTC may forbid all that the decoder proposes, for want of frames: then what is there must
        # do, cut off as at the limit.
        stuck = (self.live[active] == 0) & (self._num_finished[active] == 0)
        for b, score in zip(active[stuck], before[stuck], strict=True):
            self._num_finished[b] = 1
            self._finished_scores[b, 0] = score
            self._finished_nodes[b, 0] = step - 1, 0
        return tokens, parents

    def are_done(self, active: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Say of each utterance whether what is wanted can no longer change, (A,)."""
        done = self.live[active] == 0
        if self.settings.scores_only_fall:
            last = self.settings.num_best - 1
            enough = self._num_finished[active] > last
            done |= enough & (self._finished_scores[active, last] >= self._best_live[active])
        return np.asarray(done)

    def hypotheses(self, b: int) -> list[Hypothesis]:
        """Return the best finished hypotheses of an utterance, best first."""
        found = []
        count = self._num_finished[b]
        order = np.argsort(-self._finished_scores[b, :count], kind="stable")
        for n in order[: self.settings.num_best]:
            tokens: list[int] = []
            values: list[float] = []
            step, place = self._finished_nodes[b, n].tolist()
            while step >= 0:
                tokens.append(int(self._history[step, 0, b, place]))
                values.append(float(self._history_values[step, b, place]))
                step, place = step - 1, int(self._history[step, 1, b, place])
            confidences = np.exp(values[::-1]).tolist()
            score = float(self._finished_scores[b, n])
            found.append(Hypothesis(tuple(tokens[::-1]), score, tuple(confidences)))
        return found


class _CtcPrefixes:
    """CTC's view of the living hypotheses: in which frames they may end."""

    def __init__(self, network: SearchNetwork, encoded: Encoded, num_beams: int) -> None:
        scores = network.ctc_scores(encoded)
        self._columns = scores.columns
        probs = np.exp(scores.log_probs)
        self._probs = np.ascontiguousarray(probs.transpose(0, 2, 1))  # (B, columns, T)
        np.maximum(self._probs, LEAST_PROBABILITY, out=self._probs)
        self._lens = encoded.lens
        B, _, T = self._probs.shape
        self._ends, self._spare = (np.empty((B, num_beams, 2, T)) for _ in range(2))
        self._newest = np.full((B, num_beams), scores.columns[EOS_ID])
        for b in range(B):
            ctc_kernels.start_prefixes(self._probs[b, -1], self._lens[b], self._ends[b, 0])

    def score(
        self,
        step: int,
        live: NDArray[np.int64],
        active: NDArray[np.int64],
        ids: NDArray[np.int64],
    ) -> NDArray[np.float64]:
        """Return the prefix scores of candidates, (A, K, C)."""
        columns, out = self._columns[ids], np.empty(ids.shape)

        def work(first: int, last: int) -> None:
            beam_kernels.score_by_ctc(
                self._probs, self._lens, self._ends, self._newest, step, live, active, columns,
                first, last, out,
            )  # fmt: skip

        run_split(work, len(active), 1)
        return out

    def extend(
        self,
        step: int,
        live: NDArray[np.int64],
        active: NDArray[np.int64],
        parents: NDArray[np.int64],
        tokens: NDArray[np.int64],
    ) -> None:
        """Go on with the chosen beams, (A, K)."""
        columns = self._columns[tokens]

        def work(first: int, last: int) -> None:
            beam_kernels.extend_ends(
                self._probs, self._lens, self._ends, self._newest, step, live, active, parents,
                columns, first, last, self._spare,
            )  # fmt: skip

        run_split(work, len(active), 1)
        self._newest[active] = columns
        self._ends, self._spare = self._spare, self._ends
