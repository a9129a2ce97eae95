"""Minimum Bayes risk: the fewest expected errors, not the likeliest transcript."""

import math

import pytest
import torch
from tiny_models import MakeModel, Speech

from arborvox.decode.attention import attention_beam
from arborvox.decode.hypothesis import Hypothesis
from arborvox.decode.minimum_risk import minimum_risk, rank_by_risk
from arborvox.decode.network import Network
from arborvox.decode.settings import BeamSettings


def hypothesis(tokens: str, probability: float) -> Hypothesis:
    ids = tuple(ord(letter) for letter in tokens)
    return Hypothesis(ids, math.log(probability), (0.5,) * len(ids))


def test_one_among_its_likes_beats_a_likelier_one_that_stands_alone() -> None:
    alone = hypothesis("xyz", 0.4)
    likes = [hypothesis("abc", 0.2), hypothesis("abd", 0.2), hypothesis("ab", 0.2)]
    best, *others = rank_by_risk([alone, *likes])
    assert best.tokens != alone.tokens
    # Three errors where xyz was said, one where one of the two other likes was.
    assert best.score == pytest.approx(-(0.4 * 3 + 0.2 + 0.2))
    assert others[-1].tokens == alone.tokens
    assert others[-1].score == pytest.approx(-(0.6 * 3))


def test_of_equal_risks_the_likelier_comes_first() -> None:
    found = rank_by_risk([hypothesis("b", 0.5), hypothesis("a", 0.5)])
    assert found[0].tokens == (ord("b"),)
    sure = rank_by_risk([hypothesis("a", 0.9), hypothesis("b", 0.1)])
    assert sure[0].tokens == (ord("a"),)


@torch.no_grad()
def test_it_chooses_from_the_joint_beam(make_model: MakeModel, speech: Speech) -> None:
    network = Network(make_model())
    encoded = network.encode(*speech)
    settings = BeamSettings(beam=5, num_best=5, ctc_weight=0.3)
    beams = attention_beam(network, encoded, settings)
    for given, found in zip(beams, minimum_risk(network, encoded, settings), strict=True):
        assert {h.tokens for h in found} == {h.tokens for h in given}
        assert [h.score for h in found] == sorted((h.score for h in found), reverse=True)
    one = BeamSettings(beam=1, ctc_weight=0.3)
    alone, risk = attention_beam(network, encoded, one), minimum_risk(network, encoded, one)
    assert [best[0].tokens for best in risk] == [best[0].tokens for best in alone]
