"""What benchmarks compute from figures: pairs of models, chance over seeds, beginnings."""

import json
import sys
from pathlib import Path

import pytest

from arborvox.errors import ArborvoxError
from arborvox.score import Scores, Transcription, score_hypotheses

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))
from beginning import read_beginnings
from pairs import Trial, change
from seeds import permutation_p, read_rates


def test_seeds_that_lie_apart_are_as_rare_as_dealing_allows() -> None:
    """Of the twenty ways to deal three and three, only the two that part them do so as widely."""
    assert permutation_p([1.0, 2.0, 3.0], [7.0, 8.0, 9.0]) == pytest.approx(2 / 20)


def test_seeds_that_are_alike_are_no_news() -> None:
    assert permutation_p([1.0, 2.0], [2.0, 1.0]) == 1.0


def test_rates_of_seeds_are_read_from_an_experiment(tmp_path: Path) -> None:
    runs = []
    for seed, rate in enumerate((0.25, 0.5)):
        scores = {"metrics": {"per": {"pooled": {"rate": {"value": rate}}}}}
        (tmp_path / f"{seed}.json").write_text(json.dumps(scores))
        runs.append({"seed": seed, "scores": {"free": f"{seed}.json"}})
    experiment = {"models": [{"label": "Softmax", "runs": runs}]}
    (tmp_path / "experiment.json").write_text(json.dumps(experiment))
    assert read_rates(tmp_path, "free", "per") == {"Softmax": [25.0, 50.0]}


def scores_of(*texts: str, reference: str = "a b c d") -> list[Scores]:
    """Score one model: a text for each of its utterances."""
    said = [Transcription(str(n), "xx", reference, text) for n, text in enumerate(texts)]
    return [score_hypotheses(said, "phone", num_samples=10)]


def test_pairs_tell_a_difference_and_how_it_changes() -> None:
    """One model errs in a quarter of the phones, one in none; elsewhere in half and in none."""
    right, wrong, worse = ("a b c d",) * 4, ("a b c x",) * 4, ("a b x x",) * 4
    here = Trial({"good": scores_of(*right), "bad": scores_of(*worse)})
    there = Trial({"good": scores_of(*right), "bad": scores_of(*wrong)})
    ((name, first, second, difference, *_),) = there.table([("good", "bad")]).rows
    told = [cell.text for cell in (name, first, second, difference)]
    assert told == ["bad − good", "0.0", "25.0", "+25.0"]
    found = change(here, there, ("good", "bad"))
    assert (found.value, found.low, found.high) == pytest.approx((0.25, 0.25, 0.25))
    other = Trial({"good": scores_of("a", reference="a"), "bad": scores_of("b", reference="a")})
    with pytest.raises(ArborvoxError, match="one test set"):
        change(here, other, ("good", "bad"))


def test_a_model_has_left_its_blanks_at_the_first_look_that_shows_it(tmp_path: Path) -> None:
    for name, rates in {"early": (1.0, 0.8, 0.3), "never": (1.0, 1.0, 0.95)}.items():
        run = tmp_path / "runs" / name / "seed-0" / "train"
        run.mkdir(parents=True)
        looks = zip((100, 200, 600), rates, strict=True)
        lines = [{"kind": "dev", "step": step, "error_rate": rate} for step, rate in looks]
        (run / "metrics.jsonl").write_text("\n".join(map(json.dumps, lines)) + "\n")
    early, never = read_beginnings("Mboshi", tmp_path)
    assert (early.left_at, early.rate_by_aim) == (200, 0.8)
    assert (never.left_at, never.rate_by_aim) == (None, 1.0)
