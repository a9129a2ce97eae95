"""Pages name tests and files that exist."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("results/*.md")])
TEST = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`( \(slow\))?")
LINK = re.compile(r"\]\((?!https?:|#|mailto:)([^)#\s]+)")


def slowness_by_test(path: Path) -> dict[str, bool]:
    """Map the tests of a file to whether they are slow."""
    slow = {}
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
            marks = [ast.unparse(mark) for mark in node.decorator_list]
            slow[node.name] = "pytest.mark.slow" in marks
    return slow


def test_each_promise_names_a_test_that_exists() -> None:
    page = (ROOT / "docs/reliability.md").read_text(encoding="utf-8")
    named = TEST.findall(page)
    assert page.count("::test_") == len(named) > 40
    for file, name, slow in named:
        there = slowness_by_test(ROOT / file)
        assert name in there, f"{file} has no {name}"
        assert there[name] == bool(slow), f"{file}::{name}: is it slow?"


def test_each_promise_in_a_table_has_a_test() -> None:
    for line in (ROOT / "docs/reliability.md").read_text(encoding="utf-8").splitlines():
        if line.startswith("| ") and not line.startswith("| ---") and "held by" not in line:
            assert TEST.search(line), line


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for target in LINK.findall(page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), f"{page.name} links to {target}"
