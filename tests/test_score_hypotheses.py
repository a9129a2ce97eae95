"""Reading hypothesis files: whole ones are read, damaged ones are named by line."""

import json
from pathlib import Path
from typing import Any

import pytest

from arborvox.errors import ArborvoxError
from arborvox.score import Metric, Transcription, read_hypotheses

HEADER = {"arborvox_hypotheses": 1, "run": "runs/ca", "mode": "ctc-greedy", "unit": "char"}
LINE = {"id": "ca-1", "language": "ca", "reference": "bon dia", "text": "bon di�", "score": -1.5}


def written(tmp_path: Path, *lines: Any) -> Path:
    """A file with these lines: objects as JSON, texts as they are."""
    path = tmp_path / "hyps.jsonl"
    rows = (line if isinstance(line, str) else json.dumps(line) for line in lines)
    path.write_text("\n".join(rows) + "\n", encoding="utf-8")
    return path


def test_a_whole_file_is_read(tmp_path: Path) -> None:
    header = HEADER | {"normalization": "lower case"}
    file = read_hypotheses(written(tmp_path, header, LINE, LINE | {"id": "ca-2", "text": ""}))
    assert (file.unit, file.run, file.mode) == ("char", "runs/ca", "ctc-greedy")
    assert file.normalization == "lower case"
    assert file.metrics == (Metric.cer, Metric.wer)
    assert file.transcriptions == (
        Transcription("ca-1", "ca", "bon dia", "bon di�", num_unknown=1),
        Transcription("ca-2", "ca", "bon dia", "", num_unknown=0),
    )


@pytest.mark.parametrize("version", [1, 2])
def test_older_formats_can_still_be_scored(tmp_path: Path, version: int) -> None:
    header = HEADER | {"arborvox_hypotheses": version}
    assert len(read_hypotheses(written(tmp_path, header, LINE)).transcriptions) == 1


def test_what_the_decoder_says_of_unknown_units_counts(tmp_path: Path) -> None:
    file = read_hypotheses(written(tmp_path, HEADER, LINE | {"num_unknown": 3}))
    assert file.transcriptions[0].num_unknown == 3


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        ([], "line 1: no header"),
        ([LINE], "line 1: no header"),
        (["[]"], "line 1: a JSON object is expected"),
        ([HEADER | {"arborvox_hypotheses": 99}, LINE], "line 1: version 99 of the format"),
        ([HEADER, "[" * 100_000], "line 2: not valid JSON"),
        ([HEADER, '{"id": ' + "9" * 5000 + "}"], "line 2: not valid JSON"),
        ([HEADER, LINE | {"text": "\ud800"}], "line 2: 'text' holds half a character"),
        ([HEADER | {"unit": "word"}, LINE], "line 1: unit is 'word'"),
        ([HEADER | {"unit": ["char"]}, LINE], "line 1: unit is"),
        ([HEADER], "holds no utterances"),
        ([HEADER, LINE, json.dumps(LINE)[:-9]], "line 3: not valid JSON"),
        ([HEADER, LINE, "7"], "line 3: a JSON object is expected"),
        ([HEADER, LINE | {"reference": None}], "line 2: 'reference' is missing"),
        ([HEADER, LINE | {"text": 5}], "line 2: 'text' is not a text"),
        ([HEADER, LINE | {"num_unknown": "some"}], "line 2: num_unknown is 'some'"),
        ([HEADER, LINE, "", LINE], "line 4: utterance ca-1 stands in line 2 already"),
    ],
)
def test_damage_is_told_with_its_line(tmp_path: Path, lines: list[Any], told: str) -> None:
    path = written(tmp_path, *lines)
    with pytest.raises(ArborvoxError) as caught:
        read_hypotheses(path)
    assert told in str(caught.value)
    assert str(path) in str(caught.value)


def test_bytes_that_are_no_text_are_told_with_their_line(tmp_path: Path) -> None:
    path = written(tmp_path, HEADER, LINE)
    path.write_bytes(path.read_bytes() + b'{"id": "\xff\xfe"}\n')
    with pytest.raises(ArborvoxError, match="line 3: not UTF-8"):
        read_hypotheses(path)


def test_no_file_and_a_folder_are_told(tmp_path: Path) -> None:
    with pytest.raises(ArborvoxError, match="There is no file"):
        read_hypotheses(tmp_path / "none.jsonl")
    with pytest.raises(ArborvoxError, match="is a folder"):
        read_hypotheses(tmp_path)
