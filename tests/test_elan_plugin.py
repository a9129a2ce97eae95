"""The extension for ELAN: its descriptor is what ELAN reads, its script does what ELAN asks."""

import io
import os
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np
import pytest
import soundfile
import typer
from typer.testing import CliRunner

from arborvox.annotations import Annotation
from arborvox.annotations.safe_xml import escaped
from arborvox.annotations.tier_file import read_tier_file, write_tier_file
from arborvox.cli.elan import register
from arborvox.config.choices import DependentTier, VoiceActivity, values_of
from arborvox.elan.plugin import DESCRIPTOR, SETTINGS, UNIX_SCRIPT, WINDOWS_SCRIPT
from arborvox.elan.session import answer_elan
from arborvox.errors import ArborvoxError

sys.path.insert(0, str(Path(__file__).parent))
from checkpoints import make_checkpoint

ROOT = Path(__file__).parent.parent
CMD = "{http://www.clarin.eu/cmd/}"
MARKED = [Annotation(0.5, 1.25, "x"), Annotation(2.0, 2.0, ""), Annotation(2.5, 4.0, "")]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_checkpoint(tmp_path_factory.mktemp("a model") / "run", max_duration_s=3.0)


@pytest.fixture(scope="module")
def plugin(run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("extensions") / "my model"
    call("--run", run, "--out", out, "--name", "Model <1>", "--mode", "ctc-greedy")
    return out


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    samples = 0.1 * np.random.default_rng(0).normal(size=5 * 16000)
    soundfile.write(tmp_path / "tape ä & 1.wav", samples, 16000)
    return tmp_path / "tape ä & 1.wav"


def call(*arguments: object) -> None:
    app = typer.Typer()
    register(app)
    result = CliRunner().invoke(app, ["elan-plugin", *map(str, arguments)])
    if result.exception is not None:
        raise result.exception


def parameters(**values: object) -> bytes:
    """What ELAN writes: a line for each parameter, those without a value too."""
    lines = [
        '<?xml version="1.0" encoding="UTF-8"?>',
        '<PARAM xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" '
        'xsi:noNamespaceSchemaLocation="file:avatech-call.xsd">',
        '<param name="InvocationContext">arborvox 2026-01-01 12:00:00+0100</param>',
    ]
    lines += [f'<param name="{k}">{escaped(str(v))}</param>' for k, v in values.items()]
    return "\n".join([*lines, "</PARAM>", ""]).encode()


def answer(plugin: Path, data: bytes) -> list[str]:
    told = io.BytesIO()
    code = answer_elan(plugin, io.BytesIO(data), told)
    lines = told.getvalue().decode().splitlines()
    assert lines[-1] == ("RESULT: DONE." if code == 0 else "RESULT: FAILED.")
    return lines


def test_the_descriptor_has_what_elan_reads(plugin: Path) -> None:
    root = ET.parse(plugin / DESCRIPTOR).getroot()
    described = root.find(f".//{CMD}RECOGNIZER")
    assert described is not None
    recognizer = described.find(f"{CMD}recognizer")
    assert recognizer is not None
    assert recognizer.get("recognizerType") == "local"
    assert recognizer.get("info") == "Model <1>"
    for system in ("runLinux", "runMac", "runWin"):
        # ELAN cuts the command at its spaces, and starts it in the extension's folder.
        last = (recognizer.get(system) or "").split()[-1]
        assert (plugin / last.removeprefix("./").removeprefix(".\\")).is_file()
    names = {kind: described.findall(f"{CMD}{kind}") for kind in ("input", "output", "textparam")}
    assert [each.text for each in names["input"]] == ["source", "segments"]
    assert [each.text for each in names["output"]] == ["text", *values_of(DependentTier)]
    assert [each.get("optional") for each in names["output"]] == ["false", *["true"] * 3]
    activity = names["textparam"][1]
    assert tuple((activity.get("convoc") or "").split()) == values_of(VoiceActivity)
    # ELAN drops parameters that tell nothing about themselves.
    assert all(each.get("info") for group in names.values() for each in group)
    documentation = described.find(f"{CMD}documentation")
    assert documentation is not None and (plugin / str(documentation.text)).is_file()


def test_the_script_hears_what_a_tier_marks(plugin: Path, recording: Path, tmp_path: Path) -> None:
    (tmp_path / "marked.xml").write_bytes(write_tier_file("ref", MARKED))
    targets = {part: tmp_path / f"{part}.xml" for part in ("text", *values_of(DependentTier))}
    asked = parameters(
        source=recording, segments=tmp_path / "marked.xml", tier_name="heard it", vad="energy",
        **targets,
    )  # fmt: skip
    done = subprocess.run(
        [f"./{UNIX_SCRIPT}"],
        input=asked,
        cwd=plugin,
        env={"PYTHONPATH": str(ROOT), "LC_ALL": "C", "HOME": os.environ.get("HOME", "/")},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,  # as ELAN has it
        check=False,
    )
    lines = done.stdout.decode().splitlines()
    assert done.returncode == 0 and lines[-1] == "RESULT: DONE.", lines
    told = [line.split()[1] for line in lines if line.startswith("PROGRESS: ")]
    percents = [int(word.removesuffix("%")) for word in told]
    assert percents == sorted(percents) and percents[0] == 0 and percents[-1] == 95
    said = read_tier_file(targets["text"])
    assert {(a.start_s, a.end_s) for a in said} <= {(0.5, 1.25), (2.5, 4.0)}
    assert b'columns="heard_it"' in targets["text"].read_bytes()
    for part in values_of(DependentTier):
        for inner in read_tier_file(targets[part]):
            assert any(a.start_s <= inner.start_s < inner.end_s <= a.end_s for a in said)


def test_without_a_tier_pauses_are_found(plugin: Path, recording: Path, tmp_path: Path) -> None:
    target = tmp_path / "text.xml"
    lines = answer(plugin, parameters(source=recording, segments="", text=target, words=""))
    assert any("0:00 of 0:05" in line for line in lines)
    assert all(0 <= a.start_s < a.end_s <= 5 for a in read_tier_file(target))


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"source": ""}, "No recording"),
        ({"source": "/no/such.wav"}, "/no/such.wav: "),
        ({"text": ""}, "No file was named"),
        ({"segments": "/no/such.xml"}, "/no/such.xml: "),
        ({"vad": "magic"}, "there is no 'magic'"),
    ],
)
def test_what_cannot_be_done_is_told_and_failed(
    plugin: Path, recording: Path, tmp_path: Path, changed: dict[str, str], told: str
) -> None:
    asked = {"source": recording, "text": tmp_path / "text.xml", **changed}
    lines = answer(plugin, parameters(**asked))
    assert lines[-1] == "RESULT: FAILED."
    assert told in lines[-2]
    assert not (tmp_path / "text.xml").exists()


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b"", "not valid XML"),
        (b"<PARAM><param name='x'>", "not valid XML"),
        (b"<!DOCTYPE a [<!ENTITY b 'c'>]><PARAM>&b;</PARAM>", "document type"),
        (b"<PARAM/>", "No recording"),
        (b"<PARAM>" + b" " * (2 << 20) + b"</PARAM>", "more than the parameters"),
    ],
)
def test_other_input_is_refused(plugin: Path, data: bytes, told: str) -> None:
    lines = answer(plugin, data)
    assert lines[-1] == "RESULT: FAILED." and told in lines[-2]


def test_a_tier_file_comes_back(tmp_path: Path) -> None:
    found = [Annotation(0.25, 1.5, 'a <b> & "c"'), Annotation(1.5, 3600.125, "ŋ")]
    path = tmp_path / "tier.xml"
    path.write_bytes(write_tier_file("a b", found))
    assert read_tier_file(path) == found


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ('<TIER columns="a"><span start="1250" end="2.5"><v>x</v></span></TIER>', (1.25, 2.5)),
        (
            '<TIERS><TIER columns="a b"><span start="0.5" end="1.0"><v>x</v><v>y</v></span></TIER>'
            "</TIERS>",
            (0.5, 1.0),
        ),
    ],
)
def test_tier_files_of_elan_are_read(
    text: str, wanted: tuple[float, float], tmp_path: Path
) -> None:
    (tmp_path / "tier.xml").write_text(text, encoding="utf-8")
    assert read_tier_file(tmp_path / "tier.xml") == [Annotation(*wanted, "x")]


@pytest.mark.parametrize(
    "text", ["<EAF/>", '<TIER><span start="-1" end="2"/></TIER>', "<TIER><span/></TIER>", "<TIER>"]
)
def test_other_tier_files_are_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / "tier.xml").write_text(text, encoding="utf-8")
    with pytest.raises(ArborvoxError, match=r"tier\.xml"):
        read_tier_file(tmp_path / "tier.xml")


def test_no_other_folder_is_replaced(run: Path, plugin: Path, tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("x", encoding="utf-8")
    with pytest.raises(ArborvoxError, match="no extension of ours"):
        call("--run", run, "--out", tmp_path)
    with pytest.raises(ArborvoxError, match="no checkpoint folder"):
        call("--run", tmp_path / "none", "--out", tmp_path / "new")
    assert not (tmp_path / "new").exists()
    call("--run", run, "--out", plugin, "--name", "Model <1>", "--mode", "ctc-greedy")  # again
    assert (plugin / WINDOWS_SCRIPT).is_file()


def test_settings_of_another_shape_are_refused(
    plugin: Path, recording: Path, tmp_path: Path
) -> None:
    (tmp_path / SETTINGS).write_text("[]", encoding="utf-8")
    lines = answer(tmp_path, parameters(source=recording, text=tmp_path / "text.xml"))
    assert lines[-1] == "RESULT: FAILED." and "make the extension anew" in lines[-2]
