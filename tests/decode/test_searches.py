"""Searches find what they should, in a batch as alone, with every cache, for both layers."""

import itertools
import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from plain_decoding import plain_attention_beam
from tiny_models import UNITS, MakeModel, Speech, one_by_one
from torch import Tensor
from torch.nn import functional

from arborvox.config.choices import Search, values_of
from arborvox.decode import attention, searches
from arborvox.decode.attention import attention_beam
from arborvox.decode.ctc import ctc_beam
from arborvox.decode.hypothesis import Hypothesis
from arborvox.decode.network import Encoded, Network
from arborvox.decode.rescoring import attention_rescoring
from arborvox.decode.searches import SearchKind
from arborvox.decode.settings import BeamSettings
from arborvox.errors import ArborvoxError
from arborvox.model import decoder
from arborvox.model.asr import ASR

BLANK = len(UNITS)
WRITTEN = range(1, len(UNITS))  # all but <eos>


def first_best(kind: SearchKind) -> Callable[[Network, Encoded], list[Hypothesis]]:
    """Return a search with settings of its own kind."""
    settings = BeamSettings(
        beam=4 if kind.wide else 1,
        ctc_weight=0.4 if kind.weighs_ctc else 0.0,
        max_tokens=None if kind.needs_ctc else 9,
    )
    return lambda n, e: [best[0] for best in kind.run(n, e, settings)]


SEARCHES = {name: first_best(kind) for name, kind in searches.SEARCHES.items()}


def test_every_choice_has_its_search() -> None:
    assert tuple(searches.SEARCHES) == values_of(Search)
    assert set(searches.AUTO) <= set(searches.SEARCHES)


def ctc_log_prob(model: ASR, features: Tensor, tokens: tuple[int, ...]) -> float:
    """Return log P of a transcript by torch's own CTC."""
    encoded, lens = model.encode(features[None], torch.tensor([len(features)]))
    log_probs = model.ctc_log_probs(encoded).transpose(0, 1)
    target, length = torch.tensor([tokens], dtype=torch.int64), torch.tensor([len(tokens)])
    loss = functional.ctc_loss(log_probs, target, lens, length, blank=BLANK, reduction="none")
    return -float(loss)


def attention_log_prob(model: ASR, features: Tensor, tokens: tuple[int, ...], ended: bool) -> float:
    """Return log P of a transcript by whole reading, without smoothing."""
    assert model.decoder is not None
    assert model.output is not None
    encoded, lens = model.encode(features[None], torch.tensor([len(features)]))
    states = model.decoder(encoded, lens, torch.tensor([[0, *tokens]]))[0]
    targets = torch.tensor([*tokens, 0])
    values = model.output.log_probs(states).gather(1, targets[:, None])[:, 0]
    return float(values.sum() if ended else values[:-1].sum())


def all_transcripts(longest: int) -> list[tuple[int, ...]]:
    """Return every sequence of written tokens up to a length."""
    return [
        tokens
        for length in range(longest + 1)
        for tokens in itertools.product(WRITTEN, repeat=length)
    ]


# In fp64 rounding cannot hide a difference. In fp32, which users have, products of other shapes are
# rounded otherwise: tokens and times are still equal, and scores up to 1 in 10,000.
@pytest.mark.parametrize(
    ("dtype", "tolerance"), [(torch.float64, 1e-6), (torch.float32, 1e-4)], ids=["fp64", "fp32"]
)
@pytest.mark.parametrize("inventory", [None, [2, 3, 4, 6]], ids=["free", "inventory"])
@pytest.mark.parametrize("mode", SEARCHES)
@torch.no_grad()
def test_batched_results_equal_one_by_one_results(
    make_model: MakeModel,
    speech: Speech,
    mode: str,
    inventory: list[int] | None,
    dtype: torch.dtype,
    tolerance: float,
) -> None:
    network = Network(make_model().to(dtype), inventory=inventory)
    speech = (speech[0].to(dtype), speech[1])
    together = SEARCHES[mode](network, network.encode(*speech))
    for found, alone in zip(together, one_by_one(speech), strict=True):
        single = SEARCHES[mode](network, network.encode(*alone))[0]
        assert found.tokens == single.tokens
        assert found.frames == single.frames
        assert found.score == pytest.approx(single.score, rel=tolerance)
        assert found.confidences == pytest.approx(single.confidences, rel=tolerance)


@pytest.mark.parametrize("mode", SEARCHES)
@torch.no_grad()
def test_each_token_has_a_confidence(make_model: MakeModel, speech: Speech, mode: str) -> None:
    network = Network(make_model())
    for found in SEARCHES[mode](network, network.encode(*speech)):
        assert len(found.confidences) == len(found.tokens)
        assert all(0 <= confidence <= 1 for confidence in found.confidences)
        assert 0 not in found.tokens
        if found.frames:
            assert len(found.frames) == len(found.tokens)
            assert all(begin < end for begin, end in found.frames)
            assert all(a[1] <= b[0] for a, b in itertools.pairwise(found.frames))


@pytest.mark.parametrize("beam", [1, 3, 10])
@torch.no_grad()
def test_caches_change_nothing(
    make_model: MakeModel, speech: Speech, beam: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    # So few slots that they are freed, moved and added while the search goes on.
    monkeypatch.setattr(decoder, "FIRST_SLOTS", 2)
    model = make_model()
    network = Network(model)
    settings = BeamSettings(beam=beam, min_tokens=12, max_tokens=15)
    fast = attention_beam(network, network.encode(*speech), settings)
    for found, (features, _) in zip(fast, one_by_one(speech), strict=True):
        plain = plain_attention_beam(model, features[0], beam=beam, min_tokens=12, max_tokens=15)
        assert found[0].tokens == plain[0][0]
        assert found[0].score == pytest.approx(plain[0][1], rel=1e-5)


@torch.no_grad()
def test_beam_of_vocabulary_equals_exhaustive_search(make_model: MakeModel, speech: Speech) -> None:
    model = make_model()
    network = Network(model)
    V = len(UNITS)
    settings = BeamSettings(beam=V, num_best=V, max_tokens=2)
    long_enough = (speech[0][[0, 2, 3]], speech[1][[0, 2, 3]])  # for two tokens
    found = attention_beam(network, network.encode(*long_enough), settings)
    for best, (features, _) in zip(found, one_by_one(long_enough), strict=True):
        scores = {
            tokens: attention_log_prob(model, features[0], tokens, ended=len(tokens) < 2)
            for tokens in all_transcripts(2)
        }
        ranked = sorted(scores.items(), key=lambda entry: -entry[1])[:V]
        assert [hypothesis.tokens for hypothesis in best] == [tokens for tokens, _ in ranked]
        assert [h.score for h in best] == pytest.approx([score for _, score in ranked], rel=1e-5)


@torch.no_grad()
def test_the_decoder_alone_ends_only_where_an_end_is_likely(
    make_model: MakeModel, speech: Speech, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of all transcripts with such an end, or cut off, it finds the best ones."""
    ratio = 1.05  # all units are about as likely here: some ends fail, and some do not
    monkeypatch.setattr(attention, "END_RATIO", ratio)
    model, V = make_model(), len(UNITS)
    network = Network(model)
    settings = BeamSettings(beam=V, num_best=V, max_tokens=2)
    long_enough = (speech[0][[0, 2, 3]], speech[1][[0, 2, 3]])
    run = searches.SEARCHES["attention-beam"].run
    found = run(network, network.encode(*long_enough), settings)
    refused = 0
    for best, (features, _) in zip(found, one_by_one(long_enough), strict=True):

        def log_prob(tokens: tuple[int, ...], *, ended: bool, of: Tensor = features[0]) -> float:
            return attention_log_prob(model, of, tokens, ended=ended)

        scores = {}
        for tokens in all_transcripts(2):
            score = log_prob(tokens, ended=len(tokens) < 2)
            if len(tokens) < 2:
                before = log_prob(tokens, ended=False)
                others = (log_prob((*tokens, t), ended=False) for t in WRITTEN)
                if score - before < ratio * (max(score, *others) - before):
                    refused += 1
                    continue
            scores[tokens] = score
        ranked = sorted(scores.items(), key=lambda entry: -entry[1])[: len(best)]
        assert [hypothesis.tokens for hypothesis in best] == [tokens for tokens, _ in ranked]
    assert 0 < refused < 3 * V, "some ends fail, and some do not"


@pytest.mark.parametrize("ctc_weight", [0.3, 1.0])
@torch.no_grad()
def test_wide_joint_beam_equals_exhaustive_search(
    make_model: MakeModel, speech: Speech, ctc_weight: float
) -> None:
    model = make_model()
    network = Network(model)
    features = speech[0][0, :15]  # three encoder frames, so that three tokens fill them
    encoded = network.encode(features[None], torch.tensor([15]))
    assert encoded.lens.tolist() == [3]
    settings = BeamSettings(beam=300, num_best=20, ctc_weight=ctc_weight)
    found = attention_beam(network, encoded, settings)[0]
    scores = {}
    for tokens in all_transcripts(3):
        by_ctc = ctc_log_prob(model, features, tokens)
        by_decoder = attention_log_prob(model, features, tokens, ended=len(tokens) < 3)
        scores[tokens] = (1 - ctc_weight) * by_decoder + ctc_weight * by_ctc
    ranked = sorted(scores.items(), key=lambda entry: -entry[1])[:20]
    assert [h.tokens for h in found] == [tokens for tokens, _ in ranked]
    assert [h.score for h in found] == pytest.approx([score for _, score in ranked], rel=1e-5)


@torch.no_grad()
def test_wide_prefix_beam_equals_exhaustive_search(make_model: MakeModel, speech: Speech) -> None:
    model = make_model(decoder="none")
    network = Network(model)
    features = speech[0][0, :19]
    encoded = network.encode(features[None], torch.tensor([19]))
    assert encoded.lens.tolist() == [4]
    found = ctc_beam(network, encoded, BeamSettings(beam=1600, num_best=30))[0]
    scores = {tokens: ctc_log_prob(model, features, tokens) for tokens in all_transcripts(3)}
    scores |= {h.tokens: ctc_log_prob(model, features, h.tokens) for h in found}
    ranked = sorted(scores.items(), key=lambda entry: -entry[1])[:30]
    assert [h.tokens for h in found] == [tokens for tokens, _ in ranked]
    assert [h.score for h in found] == pytest.approx([score for _, score in ranked], rel=1e-5)


@torch.no_grad()
def test_rescoring_ranks_by_decoder_and_ctc(make_model: MakeModel, speech: Speech) -> None:
    model = make_model()
    network = Network(model)
    encoded = network.encode(*speech)
    settings = BeamSettings(beam=5, num_best=5, ctc_weight=0.4)
    proposed = ctc_beam(network, encoded, settings)
    rescored = attention_rescoring(network, encoded, settings)
    for given, found, (features, _) in zip(proposed, rescored, one_by_one(speech), strict=True):
        assert {h.tokens for h in given} == {h.tokens for h in found}
        assert [h.score for h in found] == sorted((h.score for h in found), reverse=True)
        by_ctc = {hypothesis.tokens: hypothesis.score for hypothesis in given}
        for hypothesis in found:
            by_decoder = attention_log_prob(model, features[0], hypothesis.tokens, ended=True)
            expected = 0.6 * by_decoder + 0.4 * by_ctc[hypothesis.tokens]
            assert hypothesis.score == pytest.approx(expected, rel=1e-5)


@torch.no_grad()
def test_greedy_is_a_beam_of_one(make_model: MakeModel, speech: Speech) -> None:
    model = make_model()
    network = Network(model)
    greedy = SEARCHES["attention-greedy"](network, network.encode(*speech))
    for found, (features, _) in zip(greedy, one_by_one(speech), strict=True):
        assert found.tokens == plain_attention_beam(model, features[0], beam=1, max_tokens=9)[0][0]


def test_greedy_ctc_merges_repeats_and_drops_blanks(make_model: MakeModel) -> None:
    network = Network(make_model())
    labels = np.array([[2, 2, BLANK, 2, 3, 3, BLANK, BLANK, 4]])
    network.ctc_best = lambda _: (np.full(labels.shape, -0.5, np.float32), labels)  # type: ignore[method-assign]
    found = SEARCHES["ctc-greedy"](network, Encoded(torch.zeros(1, 9, 1), torch.tensor([8])))[0]
    assert found.tokens == (2, 2, 3)
    assert found.frames == ((0, 2), (3, 4), (4, 6))
    assert found.score == pytest.approx(-4.0)
    assert found.confidences == pytest.approx([math.exp(-0.5)] * 3)


@torch.no_grad()
def test_output_length_can_be_forced(make_model: MakeModel, speech: Speech) -> None:
    network = Network(make_model())
    settings = BeamSettings(beam=3, min_tokens=5, max_tokens=5)
    found = attention_beam(network, network.encode(*speech), settings)
    frames = network.encode(*speech).lens.tolist()
    assert [len(best[0].tokens) for best in found] == [min(5, n) for n in frames]


@torch.no_grad()
def test_a_dead_end_is_cut_off(make_model: MakeModel, speech: Speech) -> None:
    """Where CTC has no frames left for what the decoder wants to go on with, the search ends."""
    network = Network(make_model())
    topk = network.topk

    def insist(states: Tensor, k: int) -> tuple[np.ndarray, np.ndarray]:
        values, ids = topk(states, k)
        return values[..., :1], np.full_like(ids[..., :1], 2)  # the same token, and never <eos>

    network.topk = insist  # type: ignore[method-assign]
    encoded = network.encode(*speech)
    found = attention_beam(network, encoded, BeamSettings(beam=2, ctc_weight=0.1))
    for best, frames in zip(found, encoded.lens.tolist(), strict=True):
        # A token again needs a blank in between.
        assert best[0].tokens == (2,) * ((frames + 1) // 2)
        assert math.isfinite(best[0].score)


@torch.no_grad()
def test_missing_branches_are_named(make_model: MakeModel, speech: Speech) -> None:
    ctc_only = Network(make_model(decoder="none"))
    with pytest.raises(ArborvoxError, match="no attention decoder"):
        SEARCHES["attention-greedy"](ctc_only, ctc_only.encode(*speech))
    attention_only = Network(make_model(ctc_weight=0.0))
    with pytest.raises(ArborvoxError, match="no CTC branch"):
        SEARCHES["ctc-greedy"](attention_only, attention_only.encode(*speech))


@torch.no_grad()
def test_the_model_itself_is_left_alone(make_model: MakeModel) -> None:
    model = make_model()
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    Network(model, precision="bf16", inventory=[0, 2, 3])
    assert model.output is not None
    assert model.output.label_smoothing == 0.1
    assert all(torch.equal(before[name], now) for name, now in model.state_dict().items())


@torch.no_grad()
def test_searches_run_in_bf16(make_model: MakeModel, speech: Speech) -> None:
    model = make_model().float()
    exact, short = Network(model), Network(model, precision="bf16")
    features = (speech[0].float(), speech[1])
    for search in SEARCHES.values():
        wanted = search(exact, exact.encode(*features))
        found = search(short, short.encode(*features))
        scores = [hypothesis.score for hypothesis in found]
        assert scores == pytest.approx([h.score for h in wanted], rel=0.1, abs=0.5)
