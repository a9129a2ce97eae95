"""ARPA files are read as they are defined, and fusion adds exactly their scores."""

import gzip
import math
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from tiny_models import UNITS, MakeModel, Speech

from arborvox.decode.attention import attention_beam
from arborvox.decode.ctc import ctc_beam
from arborvox.decode.language_model import LanguageModel, load_language_model, read_token
from arborvox.decode.network import Network
from arborvox.decode.settings import BeamSettings
from arborvox.errors import ArborvoxError
from arborvox.tokens.tokenizer import Tokenizer

# "d" and "e" are not listed; "b a" is no bigram, so "a" after "b" backs off.
ARPA = """
\\data\\
ngram 1=6
ngram 2=4
ngram 3=1

\\1-grams:
-2.0\t<unk>
-99\t<s>\t-0.5
-1.0\t</s>
-0.5\ta\t-0.2
-0.7\tb\t-0.4
-0.9\tc

\\2-grams:
-0.1\t<s> a\t-0.05
-0.3\ta b\t-0.6
-0.2\tb c
-0.25\tb </s>

\\3-grams:
-0.05\ta b c

\\end\\
"""

A, B, C, D = (UNITS.index(letter) for letter in "abcd")
END = 0


@pytest.fixture
def lm(tmp_path: Path, tokenizer: Tokenizer) -> LanguageModel:
    path = tmp_path / "lm.arpa"
    path.write_text(ARPA, encoding="utf-8")
    return load_language_model(path, tokenizer)


def log10_prob(lm: LanguageModel, tokens: list[int]) -> float:
    """Return log10 P of each token after those before it, added up."""
    state, total = lm.first_state, 0.0
    for token in tokens:
        score, state = read_token(lm, state, token)
        total += score
    return total / math.log(10)


def test_sections_may_stand_in_any_order_and_the_last_of_two_lines_counts(
    tmp_path: Path, tokenizer: Tokenizer, lm: LanguageModel
) -> None:
    head, unigrams, *longer = ARPA.removesuffix("\\end\\\n").split("\n\n")
    stale = unigrams.replace("-0.5\ta\t-0.2", "-9.0\ta\t-9.0")
    path = tmp_path / "shuffled.arpa"
    sections = [head, *longer[::-1], stale, unigrams, "\\end\\\n"]
    path.write_text("\n\n".join(section.strip("\n") for section in sections), encoding="utf-8")
    shuffled = load_language_model(path, tokenizer)
    for tokens in ([A], [A, B], [A, B, C], [B, A], [B, END], [D, A]):
        assert log10_prob(shuffled, tokens) == pytest.approx(log10_prob(lm, tokens), abs=1e-5)


@pytest.mark.parametrize(
    ("tokens", "expected"),
    [
        ([A], -0.1),  # <s> a
        ([A, B], -0.1 - 0.05 - 0.3),  # no trigram: back-off of "<s> a", then "a b"
        ([A, B, C], -0.1 - 0.05 - 0.3 - 0.05),  # a b c
        ([B], -0.5 - 0.7),
        ([B, A], -0.5 - 0.7 - 0.4 - 0.5),
        ([B, END], -0.5 - 0.7 - 0.25),
        ([C, C], -0.5 - 0.9 - 0.9),  # "c" lists no back-off: 0
        ([D], -0.5 - 2.0),  # <unk>
        ([D, A], -0.5 - 2.0 - 0.5),  # nothing is known after <unk>
    ],
)
def test_back_off_is_followed(lm: LanguageModel, tokens: list[int], expected: float) -> None:
    assert log10_prob(lm, tokens) == pytest.approx(expected, abs=1e-5)


def test_gzipped_files_are_read(tmp_path: Path, tokenizer: Tokenizer, lm: LanguageModel) -> None:
    path = tmp_path / "lm.arpa.gz"
    path.write_bytes(gzip.compress(ARPA.encode(), mtime=0))
    packed = load_language_model(path, tokenizer)
    assert log10_prob(packed, [A, B, C, END]) == log10_prob(lm, [A, B, C, END])


def test_space_and_tags_have_their_own_rules(tmp_path: Path) -> None:
    units = ("<eos>", "<unk>", "<ca>", " ", "a")
    tokenizer = Tokenizer("char", units, {"ca": (1,) * 5}, language_tags=True)
    path = tmp_path / "lm.arpa"
    path.write_text(
        "\\data\\\nngram 1=3\n\n\\1-grams:\n-0.4\ta\n-0.6\t<space>\n-0.3\t</s>\n\n\\end\\\n"
    )
    lm = load_language_model(path, tokenizer)
    assert log10_prob(lm, [2, 4, 3, 0]) == pytest.approx(-0.4 - 0.6 - 0.3, abs=1e-6)
    assert log10_prob(lm, [1]) == pytest.approx(-100.0)  # as KenLM has it without <unk>


@torch.no_grad()
def test_fusion_adds_the_weighted_score(
    make_model: MakeModel, speech: Speech, lm: LanguageModel
) -> None:
    network = Network(make_model())
    encoded = network.encode(*speech)
    wide = BeamSettings(beam=200, num_best=200, max_tokens=3)
    plain = attention_beam(network, encoded, wide)
    with_lm = replace(wide, lm=lm, lm_weight=0.7, length_bonus=0.1)
    fused = attention_beam(network, encoded, with_lm)
    for before, after, frames in zip(plain, fused, encoded.lens.tolist(), strict=True):
        scores = {hypothesis.tokens: hypothesis.score for hypothesis in before}
        compared = [hypothesis for hypothesis in after if hypothesis.tokens in scores]
        assert compared
        for hypothesis in compared:
            num_tokens = len(hypothesis.tokens)
            ended = [END] if num_tokens < min(3, frames) else []  # else it was cut off
            lm_score = log10_prob(lm, [*hypothesis.tokens, *ended]) * math.log(10)
            expected = scores[hypothesis.tokens] + 0.7 * lm_score + 0.1 * num_tokens
            assert hypothesis.score == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("inventory", [None, [3, 4, 6]], ids=["free", "inventory"])
@torch.no_grad()
def test_fusion_in_the_prefix_beam_adds_the_weighted_score(
    make_model: MakeModel, speech: Speech, lm: LanguageModel, inventory: list[int] | None
) -> None:
    network = Network(make_model(), inventory=inventory)
    encoded = network.encode(speech[0][:1, :19], torch.tensor([19]))
    plain = ctc_beam(network, encoded, BeamSettings(beam=1600, num_best=1600))[0]
    scores = {hypothesis.tokens: hypothesis.score for hypothesis in plain}
    settings = BeamSettings(beam=1600, num_best=50, lm=lm, lm_weight=0.7, length_bonus=-0.1)
    fused = ctc_beam(network, encoded, settings)[0]
    for hypothesis in fused:
        lm_score = log10_prob(lm, [*hypothesis.tokens, END]) * math.log(10)
        expected = scores[hypothesis.tokens] + 0.7 * lm_score - 0.1 * len(hypothesis.tokens)
        assert hypothesis.score == pytest.approx(expected, rel=1e-5)
    assert [h.score for h in fused] == sorted((h.score for h in fused), reverse=True)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("mmap lm http://kheafield.com/code\n\x00", "whole ARPA"),
        (ARPA.replace("\\end\\", ""), "end"),
        (ARPA.replace("-0.3\ta b", "zero\ta b"), "line 17: not an ARPA"),
        (ARPA.replace("-0.7\tb\t-0.4\n", "").replace("ngram 1=6", "ngram 1=5"), "not its context"),
        ("\\data\\\nngram 1=1\n\n\\1-grams:\n-1\thello\n\n\\end\\\n", "none of the model's units"),
    ],
)
def test_other_files_are_refused(
    tmp_path: Path, tokenizer: Tokenizer, text: str, message: str
) -> None:
    path = tmp_path / "lm.arpa"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ArborvoxError, match=message):
        load_language_model(path, tokenizer)


def test_missing_file_is_named(tmp_path: Path, tokenizer: Tokenizer) -> None:
    with pytest.raises(ArborvoxError, match="no language model"):
        load_language_model(tmp_path / "none.arpa", tokenizer)


@pytest.mark.parametrize("score", ["nan", "-inf", "1e300"])
def test_scores_that_are_no_logarithms_are_refused_by_their_line(
    tmp_path: Path, score: str
) -> None:
    path = tmp_path / "lm.arpa"
    path.write_text(f"\\data\\\nngram 1=1\n\n\\1-grams:\n{score}\ta\n\n\\end\\\n")
    with pytest.raises(ArborvoxError, match=r"lm\.arpa, line 5: .*not the logarithm"):
        load_language_model(path, Tokenizer("char", ("<eos>", "<unk>", "a"), {"x-x": (1, 1, 1)}))


def test_a_line_without_an_end_is_not_read_to_its_end(tmp_path: Path) -> None:
    path = tmp_path / "lm.arpa.gz"
    path.write_bytes(gzip.compress(b"\\1-grams:\n" + b"a" * (8 << 20), mtime=0))
    with pytest.raises(ArborvoxError, match=r"line 2: .*more than 1,048,576 characters"):
        load_language_model(path, Tokenizer("char", ("<eos>", "<unk>", "a"), {"x-x": (1, 1, 1)}))
