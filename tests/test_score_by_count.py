"""Errors by how often training had a unit."""

import json
from pathlib import Path

import pytest

from arborvox.report.score_report import report_scores
from arborvox.score import ErrorCounts, Metric, Transcription
from arborvox.score.by_count import add_tables, class_of, compare_classes, count_by_class
from arborvox.tokens.tokenizer import Tokenizer

COUNTS = {"a": 500, "t": 21, "k": 20, "q": 1, "y": 0}


def heard(name: str, reference: str, text: str) -> Transcription:
    return Transcription(name, "fin", reference, text, 0)


def totals(*members: Transcription) -> dict[str, ErrorCounts]:
    tables = count_by_class(members, Metric.per, COUNTS)
    return {name: ErrorCounts.total(table["fin"]) for name, table in tables.items()}


def test_classes_by_count() -> None:
    found = {unit: class_of(count) for unit, count in COUNTS.items()}
    wanted = {"a": "frequent", "t": "frequent", "k": "rare", "q": "rare", "y": "unseen"}
    assert found == wanted


def test_every_edit_is_counted_once_in_the_class_of_its_unit() -> None:
    found = totals(heard("1", "a y t k", "a t t q k"), heard("2", "z a", "a"))
    assert found["frequent"] == ErrorCounts(hits=3)
    assert found["rare"] == ErrorCounts(hits=1, insertions=1)
    assert found["unseen"] == ErrorCounts(substitutions=1, deletions=1)  # z is in no tokens


def test_classes_add_up_to_the_whole() -> None:
    found = totals(heard("1", "a y t k q", "t y q q"), heard("2", "", "y"), heard("3", "k", ""))
    whole = sum(found.values(), ErrorCounts())
    assert whole.num_reference == 6
    assert whole.num_reference + whole.insertions == sum(
        getattr(whole, name) for name in ("hits", "substitutions", "deletions", "insertions")
    )


def test_equal_models_do_not_differ_and_empty_classes_are_left_out() -> None:
    tables = count_by_class([heard("1", "a k a", "a a")], Metric.per, COUNTS)
    both = add_tables([tables, tables])
    assert both["rare"]["fin"].tolist() == [[0, 0, 2, 0]]
    pairings = compare_classes([both, both], [(0, 1)], seed=0, num_samples=100)
    assert [pairing.name for pairing in pairings] == ["rare", "frequent"]
    assert {pairing.p_corrected for pairing in pairings} == {1.0}


def test_the_command_tells_errors_by_count(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    units = ("<eos>", "<unk>", *COUNTS)
    Tokenizer("phone", units, {"x-x": (9, 0, *COUNTS.values())}).save(tmp_path / "tokens.json")
    header = {"arborvox_hypotheses": 2, "unit": "phone", "run": "r", "mode": "ctc-greedy",
              "normalization": "none"}  # fmt: skip
    line = {"id": "1", "language": "fin", "reference": "a k y", "text": "a k", "num_unknown": 0}
    hypotheses = tmp_path / "hyps.jsonl"
    hypotheses.write_text(f"{json.dumps(header)}\n{json.dumps(line)}\n", encoding="utf-8")
    report_scores(hypotheses, None, seed=0, num_samples=100, units_from=tmp_path / "tokens.json")
    assert "1 to 20 times" in capsys.readouterr().out
    value = json.loads((tmp_path / "hyps.scores.json").read_text(encoding="utf-8"))
    assert value["by_training_count"]["unseen"]["rate"]["value"] == 1.0
