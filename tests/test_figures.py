"""What benchmarks compute from figures: chance over seeds, and when models begin to write."""

import json
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))
from beginning import read_beginnings
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
