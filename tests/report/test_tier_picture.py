"""Tiers are drawn below the waveform, and what cannot be drawn is told."""

from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest
import soundfile
import typer
from typer.testing import CliRunner

from arborvox.annotations import Annotation, TextGrid, Tier, make_eaf, write_textgrid
from arborvox.cli.elan import register
from arborvox.errors import ArborvoxError

TIERS = (
    Tier("tx", (Annotation(0.5, 1.5, "bon dia"), Annotation(1.6, 1.7, "a long one"))),
    Tier("bell", (Annotation(1.0, 1.0, "x"),), is_point=True),
)


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    samples = 0.1 * np.random.default_rng(0).normal(size=2 * 8000)
    soundfile.write(tmp_path / "a.wav", samples, 8000)
    (tmp_path / "a.eaf").write_bytes(make_eaf(TIERS[:1], None, datetime.now(UTC)))
    (tmp_path / "a.TextGrid").write_bytes(write_textgrid(TextGrid(0.0, 2.0, TIERS)))
    return tmp_path / "a.wav"


def call(*arguments: object) -> None:
    app = typer.Typer()
    register(app)
    result = CliRunner().invoke(app, ["tiers", *map(str, arguments)])
    if result.exception is not None:
        raise result.exception


@pytest.mark.parametrize(("file", "names"), [("a.eaf", ["tx"]), ("a.TextGrid", ["tx", "bell"])])
def test_every_tier_and_text_is_in_the_picture(
    recording: Path, file: str, names: list[str]
) -> None:
    out = recording.with_name("a.svg")
    call(recording.with_name(file), recording, "--out", out)
    text = out.read_text(encoding="utf-8")
    assert all(f">{word}<" in text for word in [*names, "bon dia"])
    assert ">a long one<" not in text  # no room
    again = recording.with_name("b.svg")
    call(recording.with_name(file), recording, "--out", again)
    assert again.read_bytes() == out.read_bytes()


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--start", "3"), "no stretch"),
        (("--start", "1", "--end", "0.5"), "no stretch"),
        (("--out", "a.gif"), "must end in .svg or .png"),
    ],
)
def test_what_cannot_be_drawn_is_told(recording: Path, options: tuple[str, ...], told: str) -> None:
    out = () if "--out" in options else ("--out", str(recording.with_name("a.png")))
    with pytest.raises(ArborvoxError, match=told):
        call(recording.with_name("a.eaf"), recording, *options, *out)
