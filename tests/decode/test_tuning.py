"""Tuning: the grid ranks by what searches rank by, and the test set is never tuned on."""

from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pytest
import torch
from checkpoints import make_checkpoint
from tiny_models import MakeModel, Speech

from arborvox.cli import main
from arborvox.config import DecodeConfig
from arborvox.config.choices import Search
from arborvox.decode.language_model import LanguageModel, load_language_model
from arborvox.decode.network import Network
from arborvox.decode.searches import SEARCHES
from arborvox.errors import ArborvoxError
from arborvox.manifest import Utterance, write_cuts
from arborvox.tokens.tokenizer import Tokenizer
from arborvox.tuning.candidates import (
    IMPOSSIBLE,
    PROPOSING,
    ctc_log_probs,
    make_settings,
    propose,
    proposing_ways,
)
from arborvox.tuning.grid import ErrorGrid, ScoredList, Weights, search_grid
from arborvox.tuning.tuning import check_development_set
from arborvox.yaml12 import parse_yaml


@pytest.fixture
def lm(arpa: Path, tokenizer: Tokenizer) -> LanguageModel:
    return load_language_model(arpa, tokenizer)


@pytest.mark.parametrize("mode", ["joint", "ctc-beam", "attention-beam"])
def test_a_searchs_score_is_the_weighted_sum_of_the_candidates_scores(
    mode: Search, make_model: MakeModel, speech: Speech, lm: LanguageModel
) -> None:
    network, search, weights = Network(make_model()), SEARCHES[mode], Weights(0.4, 0.7, 0.3)
    if not search.weighs_ctc:
        weights = replace(weights, ctc_weight=1.0 if search.needs_ctc else 0.0)
    encoded = network.encode(*speech)
    settings = replace(make_settings(search, weights, lm, 60), num_best=3)
    lists = propose(network, encoded, search, lm, 60)
    found = search.run(network, encoded, settings)
    compared = 0
    limits = encoded.lens.tolist()
    for hypotheses, candidates, limit in zip(found, lists, limits, strict=True):
        scores = (
            (1 - weights.ctc_weight) * candidates.attention
            + weights.ctc_weight * candidates.ctc
            + weights.lm_weight * candidates.lm
            + weights.length_bonus * candidates.num_tokens
        )
        by_tokens = dict(zip(candidates.transcripts, scores.tolist(), strict=True))
        for hypothesis in hypotheses:
            # What was cut off at the limit has no end that could be scored.
            if hypothesis.tokens in by_tokens and len(hypothesis.tokens) < limit:
                assert hypothesis.score == pytest.approx(by_tokens[hypothesis.tokens], rel=1e-3)
                compared += 1
    assert compared > 0


def test_a_decoder_alone_proposes_nothing_that_runs_to_the_last_frame() -> None:
    alone, joint = SEARCHES["attention-beam"], SEARCHES["joint"]
    assert [way.length_bonus for way in proposing_ways(alone, with_lm=False)] == [0.0]
    assert all(way.length_bonus <= way.lm_weight for way in proposing_ways(alone, with_lm=True))
    assert proposing_ways(joint, with_lm=True) == list(PROPOSING)
    assert len(proposing_ways(SEARCHES["ctc-beam"], with_lm=False)) == 4


def test_transcripts_without_room_are_impossible_and_weigh_nothing_at_weight_0(
    make_model: MakeModel, speech: Speech
) -> None:
    network = Network(make_model())
    features, lens = speech
    with torch.inference_mode():
        encoded = network.encode(features, lens)
        scores = ctc_log_probs(network, encoded, 1, [(2,) * 40, (2,), ()])
    assert scores[0] == IMPOSSIBLE
    assert (scores[1:] < 0).all() and (scores[1:] > -1000).all()
    assert 0.0 * scores[0] == 0.0


def test_a_grid_counts_the_errors_of_those_that_would_win() -> None:
    rng = np.random.default_rng(0)
    lists = [
        ScoredList(*(-10 * rng.random((3, 7))), rng.integers(1, 9, 7), rng.integers(0, 6, 7))
        for _ in range(5)
    ]
    axes = ((0.0, 0.5, 1.0), (0.0, 0.4), (-0.5, 0.0, 1.0))
    grid = search_grid(lists, *axes)
    for places in product(*(range(len(axis)) for axis in axes)):
        ctc, lm, bonus = (axis[place] for axis, place in zip(axes, places, strict=True))
        expected = 0
        for found in lists:
            scores = [
                (1 - ctc) * a + ctc * c + lm * m + bonus * n
                for c, a, m, n in zip(
                    found.ctc, found.attention, found.lm, found.num_tokens, strict=True
                )
            ]
            expected += int(found.num_errors[int(np.argmax(scores))])
        assert grid.num_errors[places] == expected


def test_a_lucky_point_among_bad_ones_is_not_the_best() -> None:
    errors = np.full((5, 1, 1), 20)
    errors[0] = 9  # alone
    errors[2:5, 0, 0] = 10, 10, 11
    grid = ErrorGrid((0.0, 0.25, 0.5, 0.75, 1.0), (0.0,), (0.0,), errors)
    assert grid.best(1) == [Weights(0.75, 0.0, 0.0)]


def test_equal_points_are_ranked_by_how_little_they_change() -> None:
    grid = ErrorGrid((0.5,), (0.0, 0.5), (-0.5, 0.0, 0.5), np.full((1, 2, 3), 7))
    assert grid.best(2) == [Weights(0.5, 0.0, 0.0), Weights(0.5, 0.0, -0.5)]


@pytest.mark.parametrize("mode", ["joint", "rescoring", "ctc-beam", "attention-beam", "mbr"])
@pytest.mark.parametrize("with_lm", [True, False])
def test_weights_are_written_as_a_decode_section_with_a_picture(
    mode: str, with_lm: bool, corpus: Path, tmp_path: Path, arpa: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    run = make_checkpoint(tmp_path / "run")
    out = tmp_path / "weights.yaml"
    command = ["tune", str(run), str(corpus / "cuts_dev.jsonl.gz"), "--out", str(out)]
    options = ["--mode", mode, "--beam", "4", "--confirm", "2", "--precision", "fp32"]
    with pytest.raises(SystemExit) as stopped:
        main([*command, *options, *(["--lm", str(arpa)] if with_lm else [])])
    assert not stopped.value.code
    section = parse_yaml(out.read_text(encoding="utf-8"), "weights.yaml")["decode"]
    config = DecodeConfig(**section)
    assert config.mode == mode
    assert (config.lm == arpa) == with_lm
    assert ("ctc_weight" in section) == SEARCHES[config.mode].weighs_ctc  # type: ignore[index]
    assert out.with_suffix(".png").read_bytes().startswith(b"\x89PNG")
    printed = capsys.readouterr().out
    assert "as it was" in printed and f"--mode {mode} --beam 4" in printed
    rates = [float(line.split()[-1 - line.endswith("*")]) for line in _rows_of(printed)]
    chosen = next(line for line in _rows_of(printed) if line.endswith("*"))
    assert float(chosen.split()[-2]) == min(rates)


def _rows_of(printed: str) -> list[str]:
    lines = [line.rstrip() for line in printed.splitlines()]
    return [line for line in lines if line.startswith(("as it was", "grid"))]


@pytest.mark.parametrize("split", ["test", "train"])
def test_other_sets_are_refused_by_name_and_by_content(split: str, corpus: Path) -> None:
    named = corpus / f"cuts_{split}.jsonl.gz"
    with pytest.raises(ArborvoxError, match=r"tune on the development set \(cuts_dev"):
        check_development_set(named)
    renamed = corpus / "mine.jsonl.gz"
    renamed.write_bytes((corpus / "cuts_dev.jsonl.gz").read_bytes() + named.read_bytes())
    with pytest.raises(ArborvoxError, match=rf"utterances of cuts_{split}.jsonl.gz beside it"):
        check_development_set(renamed)
    assert len(check_development_set(corpus / "cuts_dev.jsonl.gz")) == 5


def test_what_cannot_be_tuned_is_told(
    corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run, dev = make_checkpoint(tmp_path / "run"), corpus / "cuts_dev.jsonl.gz"
    silent = tmp_path / "silent.jsonl.gz"
    write_cuts(silent, [Utterance("u", str(corpus / "dev0.wav"), "x-x", "", 16000, 8000)])
    lost = tmp_path / "lost.jsonl.gz"
    write_cuts(lost, [Utterance("u", str(corpus / "none.wav"), "x-x", "a", 16000, 8000)])
    for arguments, told in [
        ([str(dev), "--mode", "ctc-greedy"], "nothing to tune; choose ctc-beam"),
        ([str(dev), "--out", str(tmp_path / "weights.json")], "must end in .yaml"),
        ([str(silent), "--beam", "2"], "no transcripts to compare with"),
        ([str(lost), "--beam", "2"], "No utterance of the development set could be read"),
    ]:
        with pytest.raises(SystemExit) as stopped:
            main(["tune", str(run), "--out", str(tmp_path / "weights.yaml"), *arguments])
        assert stopped.value.code == 2
        assert told in " ".join(capsys.readouterr().err.split())
        assert not list(tmp_path.glob("weights.*"))
