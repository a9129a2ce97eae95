"""Pictures of all scripts: text stays text, fonts are found, and what is missing is told once."""

import warnings
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest
from fontTools.fontBuilder import FontBuilder
from fontTools.pens.ttGlyphPen import TTGlyphPen
from matplotlib import font_manager

from arborvox.tokens import Tokenizer
from arborvox.tokens.closeness import draw_closeness, language_closeness
from arborvox.tokens.trees import build_tree, color_units
from arborvox.tree.drawing import display_name, draw_tree

UNITS = ("<eos>", "<unk>", " ", "a", "$", "今", "天", "ก", "\u0e48", "த", "\u0bbe", "д")
COUNTS = {"zh": (1, 0, 0, 0, 1, 5, 4, 0, 0, 0, 0, 0), "th": (1, 0, 9, 1, 0, 0, 0, 5, 4, 3, 2, 1)}
TOKENIZER = Tokenizer("char", UNITS, COUNTS)


def draw(path: Path) -> None:
    """Draw with every warning an error: nobody reads seven hundred of them."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        draw_tree(build_tree(TOKENIZER), path, color_units(TOKENIZER, "language"), "今天")


@pytest.fixture
def no_fonts(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that has only what comes with matplotlib."""
    monkeypatch.setattr(font_manager, "findSystemFonts", list)


def test_an_svg_has_every_unit_as_text(
    no_fonts: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    draw(tmp_path / "tree.svg")
    texts = [
        "".join(element.itertext()).strip()
        for element in ElementTree.parse(tmp_path / "tree.svg").iter()
        if element.tag.endswith("}text")
    ]
    assert {display_name(unit) for unit in UNITS} <= set(texts)
    assert "sans-serif" in (tmp_path / "tree.svg").read_text(encoding="utf-8")
    assert capsys.readouterr().err == ""


def test_a_png_without_fonts_says_once_which_to_install(
    no_fonts: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    draw(tmp_path / "tree.png")
    told = capsys.readouterr().err
    assert told.count("\n") == 1
    assert "install Noto Sans CJK, Noto Sans Tamil, Noto Sans Thai," in told
    assert (tmp_path / "tree.png").is_file()


def make_font(path: Path, characters: str) -> None:
    """Write a font in which each of some characters is a black square."""
    names = [".notdef", *(f"u{ord(character):X}" for character in characters)]
    pen = TTGlyphPen(None)
    pen.moveTo((0, 0))
    for point in ((0, 700), (700, 700), (700, 0)):
        pen.lineTo(point)
    pen.closePath()
    square = pen.glyph()
    font = FontBuilder(1000, isTTF=True)
    font.setupGlyphOrder(names)
    font.setupCharacterMap(dict(zip(map(ord, characters), names[1:], strict=True)))
    font.setupGlyf(dict.fromkeys(names, square))
    font.setupHorizontalMetrics(dict.fromkeys(names, (800, 0)))
    font.setupHorizontalHeader(ascent=800, descent=-200)
    font.setupNameTable({"familyName": "Squares", "styleName": "Regular"})
    font.setupOS2()
    font.setupPost()
    font.save(path)


def test_a_font_of_the_machine_is_used(
    no_fonts: None,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    draw(tmp_path / "boxes.png")
    make_font(tmp_path / "squares.ttf", "今天ก\u0e48த\u0bbe")
    (tmp_path / "broken.ttf").write_bytes(b"no font")
    paths = [str(tmp_path / "broken.ttf"), str(tmp_path / "squares.ttf")]
    monkeypatch.setattr(font_manager, "findSystemFonts", lambda: paths)
    capsys.readouterr()
    draw(tmp_path / "squares.png")
    assert capsys.readouterr().err == ""
    assert (tmp_path / "squares.png").read_bytes() != (tmp_path / "boxes.png").read_bytes()


def test_the_same_picture_is_the_same_bytes(no_fonts: None, tmp_path: Path) -> None:
    for ending in ("svg", "png"):
        for name in ("a", "b"):
            draw(tmp_path / f"{name}.{ending}")
        assert (tmp_path / f"a.{ending}").read_bytes() == (tmp_path / f"b.{ending}").read_bytes()


def test_marks_get_something_to_stand_on() -> None:
    assert display_name("\u0e48") == "◌\u0e48"
    assert display_name("\u0e34") == "◌\u0e34"  # a Thai vowel above, whose combining class is 0
    assert display_name("\u0bbe") == "◌\u0bbe"
    assert display_name(" ") == "␣"


def test_the_space_is_no_letter_in_common(tmp_path: Path) -> None:
    units = ("<eos>", "<unk>", " ", "a", "b", "д", "ж")
    tokenizer = Tokenizer("char", units, {"ca": (1, 0, 9, 5, 5, 0, 0), "ru": (1, 0, 9, 0, 0, 5, 5)})
    closeness = language_closeness(tokenizer)
    assert closeness.similarity[0, 1] == 0.0
    draw_closeness(closeness, tmp_path / "map.svg")
