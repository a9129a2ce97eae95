"""Pages name tests, files, commands and options that exist."""

import ast
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from click import Context
from typer.main import get_command

from arborvox.cli import app

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


def test_readmes_commands_have_the_options_that_it_gives_them() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    lines = re.findall(r"^ {4}arborvox (.+)$|`arborvox ([^`]+)`", text, re.MULTILINE)
    assert len(lines) > 10
    for line in ("".join(parts) for parts in lines):
        command: Any = get_command(app)
        for word in (*line.split(), "build"):  # `tokens data` is short for `tokens build data`
            if hasattr(command, "get_command"):
                command = command.get_command(Context(command), word) or command
        known = {option for parameter in command.params for option in parameter.opts}
        known |= {option for parameter in get_command(app).params for option in parameter.opts}
        given = {word.partition("=")[0] for word in line.split() if word.startswith("-")}
        assert given <= known | {"--help"}, line


def test_readme_says_where_the_program_is_and_how_to_get_it_alone() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    for words in (".venv/bin/activate", "pip install ", "pipx install ", "uv tool install "):
        assert words in text
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert set(re.findall(r"\.\[(\w+)\]", text)) <= set(extras["project"]["optional-dependencies"])
