"""Sentences that training lacks are told apart where a test set has others too."""

import json
from pathlib import Path

import pytest
from made_up import make_experiment

from arborvox.report.experiment_report import make_report
from arborvox.report.results import read_table
from arborvox.score import Scores, Selection, read_hypotheses, read_scores, score_hypotheses
from arborvox.score.rates import score_part

HEARD_BEFORE = [f"{name}-{n}" for n, name in enumerate(["ca", "es", "it"] * 4)]


@pytest.fixture
def experiment(tmp_path: Path) -> Path:
    """Two models, two seeds, thirty utterances of three languages."""
    make_experiment(tmp_path, {"softmax": 0.4, "huffman": 0.1})
    return tmp_path


def list_repeated(folder: Path, ids: list[str]) -> Path:
    table = folder / "repeated.tsv"
    table.write_text("id\tset\n" + "".join(f"{id_}\ttest\n" for id_ in ids))
    return table


def scored_alone(folder: Path, model: str, table: Path) -> list[Scores]:
    """Score the new sentences as `arborvox score --except` does, seed by seed."""
    files = [read_hypotheses(folder / f"{model}-{seed}/free.jsonl") for seed in (0, 1)]
    parts = [Selection.read(None, table).of(file) for file in files]
    return [score_hypotheses(part.transcriptions, part.unit) for part in parts]


def test_the_rates_are_those_of_scoring_new_sentences_alone(experiment: Path) -> None:
    table = list_repeated(experiment, HEARD_BEFORE)
    make_report(experiment, experiment / "report")
    told = read_table(experiment / "report/report.json", "free-cer-new")
    for row, model in zip(told.rows, ("softmax", "huffman"), strict=True):
        alone = scored_alone(experiment, model, table)
        rates = [next(iter(found.metrics.values())).pooled.rate.value for found in alone]
        assert row[-1].text.split(" ± ")[0] == f"{100 * sum(rates) / 2:.1f}"
        assert row[-1].note, "an interval"
    differences = read_table(experiment / "report/report.json", "free-cer-new-differences")
    assert differences.rows[-1][3].text.startswith("−")
    page = (experiment / "report/report.md").read_text(encoding="utf-8")
    assert "12 of 30 test utterances repeat a sentence" in page
    assert "The 18 others" in page


def test_nothing_is_said_where_nothing_is_repeated(experiment: Path) -> None:
    for ids in (None, []):
        if ids is not None:
            list_repeated(experiment, ids)
        make_report(experiment, experiment / "report")
        tables = json.loads((experiment / "report/report.json").read_text())["tables"]
        assert not [name for name in tables if "new" in name]


def test_a_test_set_without_a_new_sentence_is_told(experiment: Path) -> None:
    list_repeated(experiment, [f"{('ca', 'es', 'it')[n % 3]}-{n}" for n in range(30)])
    make_report(experiment, experiment / "report")
    page = (experiment / "report/report.md").read_text(encoding="utf-8")
    assert "30 of 30 test utterances repeat a sentence" in page
    assert "nothing is left to score by itself" in page


def test_a_part_without_a_language_leaves_it_out(experiment: Path) -> None:
    scores = read_scores(experiment / "softmax-0/free.scores.json")
    part = score_part(scores, lambda id_: id_.startswith("ca"))
    assert part is not None
    for metric, found in part.metrics.items():
        assert found.pooled.counts == scores.metrics[metric].languages["ca"].counts
        assert list(found.languages) == ["ca"]
    assert score_part(scores, lambda id_: False) is None
