"""Pages of results cannot drift: their tables are those of the JSON beside them, README's too."""

import json
import math
import re
from pathlib import Path

import pytest

from arborvox.errors import ArborvoxError
from arborvox.report.document import Cell, Table
from arborvox.report.results import (
    fill_page,
    fill_pages,
    read_table,
    results_as_json,
    write_results,
)

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "results"
PAGES = sorted(RESULTS.glob("*.md"))
FILES = sorted(RESULTS.glob("*.json"))
# What a table of README takes its numbers from, by the heading above; rows may link to a page.
README_SOURCES = {
    "Measured": [],
    "Four to seven hours of a language": ["languages"],
    "Phones of languages never heard": [
        "ucla", "ucla_pretrained", "trees", "trees_trial", "trees_layers",
    ],
    "Seven minutes of each language": [
        "common_voice", "common_voice_pretrained", "common_voice_all_pretrained",
    ],
}  # fmt: skip


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_pages_tables_are_those_of_its_numbers(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert fill_page(text, RESULTS) == text, "python benchmarks/pages.py writes them anew"
    outside = re.sub(r"<!-- table: .*?<!-- end -->", "", text, flags=re.DOTALL)
    assert not re.search(r"^\|", outside, flags=re.MULTILINE), "a table that no JSON holds"


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_numbers_say_where_they_come_from(path: Path) -> None:
    stored = json.loads(path.read_text(encoding="utf-8"))
    assert "written by the command" in stored["source"] or "transcribed" in stored["source"]
    page = path.with_suffix(".md")
    told = (page if page.exists() else ROOT / "README.md").read_text(encoding="utf-8")
    told = " ".join(told.replace("\\\n", " ").split())
    for command in stored["command"].splitlines():
        assert command in told


def test_every_number_in_the_readmes_tables_was_measured() -> None:
    heading, files = "", []
    checked = 0
    for line in (ROOT / "README.md").read_text(encoding="utf-8").splitlines():
        if line.startswith("#"):
            heading = line.lstrip("# ")
            files = README_SOURCES.get(heading, [])
        if heading not in README_SOURCES or not line.startswith("| ") or "*the paper" in line:
            continue
        linked = re.findall(r"results/(\w+)\.md", line)
        if heading == "Measured":
            files = linked or (["demo"] if "`make demo`" in line else files)
        known = [number for name in files for number in _numbers_of(RESULTS / f"{name}.json")]
        _, *cells = line.strip("| ").split(" | ")
        for written in _written(" ".join(cell for cell in cells if "`" not in cell)):
            assert any(_is_told_as(number, written) for number in known), f"{written} in: {line}"
            checked += 1
    assert checked > 50


def _numbers_of(path: Path) -> list[float]:
    tables = json.loads(path.read_text(encoding="utf-8"))["tables"]
    texts = []
    for table in tables.values():
        texts += table["header"]
        for cell in (cell for row in table["rows"] for cell in row):
            texts += [cell] if isinstance(cell, str) else [cell["text"], cell.get("note", "")]
    return [float(written.replace(",", "")) for written in _written(" ".join(texts))]


def _written(text: str) -> list[str]:
    return re.findall(r"\d+(?:,\d{3})*(?:\.\d+)?", text)


def _is_told_as(number: float, written: str) -> bool:
    """Whether a number, rounded to the digits that are written, is what is written."""
    digits = written.replace(",", "")
    decimals = len(digits.partition(".")[2]) or -(len(digits) - len(digits.rstrip("0")))
    # A ratio of 1.042 is also told as 4 %.
    for value in (number, 100 * (number - 1)):
        scale = 10.0**decimals
        if math.isclose(math.floor(value * scale + 0.5) / scale, float(digits)):
            return True
    return False


def test_a_changed_number_is_noticed(tmp_path: Path) -> None:
    table = Table(("Model", "PER"), ((Cell("Softmax"), Cell("57.2", "54.8–59.7", best=True)),))
    page = tmp_path / "page.md"
    page.write_text("# Page\n\n<!-- table: page.json#free -->\n<!-- end -->\n\nText.\n")
    write_results(tmp_path / "page.json", results_as_json("arborvox run x", {}, {"free": table}))
    fill_pages([page])
    text = page.read_text(encoding="utf-8")
    assert "| **57.2** 54.8–59.7 |\n<!-- end -->\n\nText." in text
    assert fill_page(text.replace("57.2", "47.2"), tmp_path) == text
    assert read_table(tmp_path / "page.json", "free") == table


def test_a_mark_without_its_table_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ArborvoxError, match="There is no file"):
        fill_page("<!-- table: none.json#free -->\n<!-- end -->\n", tmp_path)
    write_results(tmp_path / "page.json", results_as_json("arborvox run x", {}, {}))
    with pytest.raises(ArborvoxError, match="has no table 'free'"):
        fill_page("<!-- table: page.json#free -->\n<!-- end -->\n", tmp_path)
    (tmp_path / "page.json").write_text('{"arborvox_results": 1, "tables": {"free": {}}}')
    with pytest.raises(ArborvoxError, match="'free' is damaged"):
        read_table(tmp_path / "page.json", "free")
