"""Experiments, hypotheses and scores from strangers: reported, or refused in one sentence."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from budgets import bounded_memory, examples
from hypothesis import given
from hypothesis import strategies as st
from made_up import make_experiment
from mutations import STRANGE, changed, places

from arborvox.errors import ArborvoxError
from arborvox.report.experiment_report import make_report
from arborvox.score import read_scores
from arborvox.score.hypotheses import read_hypotheses
from arborvox.score.rates import score_hypotheses

FILES = [
    *("experiment.json", "stats.json", "tokens/tokens.json", "tree.json", "a-0/metrics.jsonl"),
    *("a-0/free.jsonl", "a-0/free.scores.json", "a-0/free.speed.json", "b-0/free.speed.json"),
]


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sound") / "experiment"
    make_experiment(folder, {"a": 0.1, "b": 0.2}, seeds=(0,), num_utterances=6)
    return folder


@pytest.fixture(autouse=True)
def little_memory(sound: Path, tmp_path: Path) -> Iterator[None]:
    make_report(sound, tmp_path / "report")
    with bounded_memory():
        yield


def spoil(path: Path, data: st.DataObject) -> None:
    """Change values of a line of JSON, or bytes of the file."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.suffix == ".jsonl" else None
    if data.draw(st.integers(0, 3)) == 0:
        content = path.read_bytes()
        at = int(data.draw(st.floats(0, 1)) * len(content))
        new = data.draw(st.binary(max_size=6))
        path.write_bytes(content[:at] + new + content[at + data.draw(st.integers(0, 40)) :])
        return
    row = data.draw(st.integers(0, len(lines) - 1)) if lines else 0
    value = json.loads(lines[row] if lines else path.read_text(encoding="utf-8"))
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.sampled_from(places(value)))
        value = changed(value, place, data.draw(STRANGE))
    if lines:
        lines[row] = json.dumps(value)
        path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    else:
        path.write_text(json.dumps(value), encoding="utf-8")


@examples(30, 500)
@given(name=st.sampled_from(FILES), data=st.data())
def test_a_changed_experiment_is_reported_or_refused(
    sound: Path, tmp_path: Path, name: str, data: st.DataObject
) -> None:
    folder = tmp_path / "place/changed"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(sound, folder)
    spoil(folder / name, data)
    try:
        make_report(folder, folder / "report")
    except ArborvoxError as error:
        assert "\n" not in str(error)
    assert list(folder.parent.iterdir()) == [folder]


@examples(60, 2000)
@given(data=st.data())
def test_changed_hypotheses_are_scored_or_refused(
    sound: Path, tmp_path: Path, data: st.DataObject
) -> None:
    path = tmp_path / "hyps.jsonl"
    shutil.copy(sound / "a-0/free.jsonl", path)
    spoil(path, data)
    try:
        file = read_hypotheses(path)
    except ArborvoxError as error:
        assert str(error).startswith(str(path))
        assert "\n" not in str(error)
    else:
        assert score_hypotheses(file.transcriptions, file.unit, num_samples=20).metrics


@examples(60, 2000)
@given(data=st.data())
def test_changed_scores_are_read_or_refused(
    sound: Path, tmp_path: Path, data: st.DataObject
) -> None:
    path = tmp_path / "scores.json"
    shutil.copy(sound / "a-0/free.scores.json", path)
    spoil(path, data)
    try:
        scores = read_scores(path)
    except ArborvoxError as error:
        assert str(error).startswith(str(path))
        assert "\n" not in str(error)
    else:
        tables = [table for of in scores.edits.tables.values() for table in of.values()]
        assert all(table.min(initial=0) >= 0 for table in tables)
