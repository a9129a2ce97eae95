"""The commands about tokens and trees, from a text folder to pictures."""

import re
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from arborvox.cli import tokens as tokens_command
from arborvox.cli import tree as tree_command
from arborvox.errors import ArborvoxError
from arborvox.tokens import Tokenizer
from arborvox.tree import HuffmanTree, load_tree, save_tree

app = typer.Typer()
tokens_command.register(app)
tree_command.register(app)

TEXTS = {
    "ca": "Bon dia a tothom.\nQuè tal? Molt bé, gràcies!\n",
    "es": "Buenos días a todos.\n¿Qué tal? Muy bien, gracias.\n",
    "ru": "Добрый день всем.\nКак дела? Спасибо, хорошо.\n",
}


def run(*words: object) -> str:
    """Run a command; return what it printed on standard output, or raise what it raised."""
    result = CliRunner().invoke(app, [str(word) for word in words], catch_exceptions=True)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with texts, tokens and a tree."""
    (tmp_path / "text").mkdir()
    for language, text in TEXTS.items():
        (tmp_path / "text" / f"{language}.txt").write_text(text, encoding="utf-8")
    run("tokens", tmp_path / "text", "--out", tmp_path / "tokens.json")
    run("tree", "build", "--tokens", tmp_path / "tokens.json", "--out", tmp_path / "tree.json")
    return tmp_path


def test_tokens_builds_with_and_without_saying_build(folder: Path) -> None:
    for words in (("tokens",), ("tokens", "build")):
        shown = run(*words, folder / "text", "--unit", "char", "--out", folder / "again.json")
        assert (folder / "again.json").read_bytes() == (folder / "tokens.json").read_bytes()
        assert "<unk>" in shown


def test_tokens_can_be_restricted_and_tagged(folder: Path) -> None:
    out = folder / "few.json"
    run("tokens", "--language-tags", "--languages", "ca,es", folder / "text", "--out", out)
    assert Tokenizer.load(out).special == ("<eos>", "<unk>", "<ca>", "<es>")


def test_help_names_both_commands() -> None:
    shown = run("tokens", "--help")
    assert "build" in shown
    assert "languages" in shown


@pytest.mark.parametrize("ending", ["svg", "png"])
def test_pictures_are_drawn_the_same_each_time(folder: Path, ending: str) -> None:
    first, second = folder / f"one.{ending}", folder / f"two.{ending}"
    for picture in (first, second):
        run("tree", "draw", picture, "--tree", folder / "tree.json")
    assert first.read_bytes() == second.read_bytes()
    run("tokens", "languages", folder / "tokens.json", "--out", first)
    run("tokens", "languages", folder / "tokens.json", "--out", second)
    assert first.read_bytes() == second.read_bytes()


def test_draw_finds_the_tree_by_the_pictures_name(folder: Path) -> None:
    for color in ("language", "script", "sharing"):
        run("tree", "draw", folder / "tree.svg", "--color", color)
        assert (folder / "tree.svg").read_text(encoding="utf-8").startswith("<?xml")


def test_a_tree_without_tokens_is_drawn_by_script(tmp_path: Path) -> None:
    units = ["<eos>", "<unk>", "a", "ж", "[b]", "$x$", " "]
    save_tree(HuffmanTree.from_counts([1] * 7, units), tmp_path / "tree.json")
    run("tree", "draw", tmp_path / "tree.svg")
    assert (tmp_path / "tree.svg").stat().st_size > 1000


def test_a_picture_of_another_kind_is_refused(folder: Path) -> None:
    with pytest.raises(ArborvoxError, match=r"\.svg or \.png"):
        run("tree", "draw", folder / "tree.bmp")


def test_show_lists_every_unit_with_code_and_languages(folder: Path) -> None:
    tree = load_tree(folder / "tree.json")
    shown = run("tree", "show", folder / "tree.json", "--sort", "id")
    assert "entropy" in shown
    lines = shown.splitlines()[2:]
    assert len(lines) == tree.num_leaves
    row = next(line for line in lines if re.match(r"\s*\d+\s+b\s", line))
    assert row.split()[4] == tree.codes()[tree.units.index("b")]
    assert row.split()[5:] == ["ca", "es"]


def test_compare_and_why_explain(folder: Path) -> None:
    run(
        "tree", "build", "--tokens", folder / "tokens.json", "--kind", "random", "--seed", 3,
        "--out", folder / "random.json",
    )  # fmt: skip
    shown = run("tree", "compare", folder / "tree.json", folder / "random.json")
    assert "same code" in shown
    shown = run("tree", "why", folder / "tree.json", "a", "д")
    assert "decisions are shared" in shown


def test_counts_can_come_from_other_manifests(folder: Path) -> None:
    out = folder / "other.json"
    run(
        "tree", "build", "--tokens", folder / "tokens.json", "--out", out,
        "--manifests", folder / "text" / "ca.txt", "--weighting", "pooled",
    )  # fmt: skip
    tree = load_tree(out, Tokenizer.load(folder / "tokens.json").units)
    assert tree.probabilities[tree.units.index("д")] < 0.01


def test_a_tree_for_other_tokens_is_refused(folder: Path) -> None:
    other = folder / "other.json"
    run("tokens", folder / "text" / "ca.txt", "--out", other)
    for words in (("show", folder / "tree.json"), ("draw", folder / "tree.svg")):
        with pytest.raises(ArborvoxError, match="does not match the tokens"):
            run("tree", *words, "--tokens", other)


def test_the_gallery_has_every_set_of_languages(folder: Path) -> None:
    (folder / "ucla" / "x-one").mkdir(parents=True)
    phones = folder / "ucla" / "x-one" / "text.txt"
    phones.write_text("xx-1 p a t a\nxx-2 b a d i\n", encoding="utf-8")
    out = folder / "gallery"
    run(
        "tree", "gallery", "--text", folder / "text", "--phones", phones.parent.parent, "--out", out
    )
    for name in ("romance", "slavic", "all", "phones"):
        for file in ("tokens.json", "huffman.json", "huffman.svg", "languages.svg"):
            assert (out / name / file).is_file()
        assert f"({name}/huffman.svg)" in (out / "index.md").read_text(encoding="utf-8")
    assert (out / "phones" / "phonetic.svg").is_file()
    with pytest.raises(ArborvoxError, match="--text"):
        run("tree", "gallery", "--out", out)
