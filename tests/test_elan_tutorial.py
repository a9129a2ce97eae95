"""The commands of docs/elan.md, on a made-up project that espeak-ng has spoken."""

import csv
import re
import shlex
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest
import soundfile

from arborvox.annotations import Annotation, Tier, make_eaf, read_eaf, read_textgrid

TUTORIAL = Path(__file__).parent.parent / "docs/elan.md"
RECIPE = """
name: tutorial
corpus: {kind: elan, source: project, language: es, tier: [tx], ignore: ["***"]}
tokens: {unit: char}
model: {size: tiny}
train: {batch_s: 20, max_epochs: 1, max_steps: 4, evaluate_every: 4, save_every: 4, precision: fp32}
decode: {mode: ctc-greedy}
variants: [{name: only}]
"""


def arborvox(folder: Path, *words: str) -> None:
    command = [sys.executable, "-m", "arborvox", *words]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{shlex.join(words)}: {done.stderr}"


def make_project(folder: Path) -> None:
    """Twelve recordings of a few sentences each, with a pause and a *** in each, and a new one."""
    words = (
        "prepare synthetic --languages es --sentences 40 --speakers 4 --out made --split utterance"
    )
    arborvox(folder, *words.split())
    clips = next((folder / "made").rglob("validated.tsv")).parent
    with (clips / "validated.tsv").open(encoding="utf-8") as table:
        rows = list(csv.DictReader(table, delimiter="\t"))
    (folder / "project").mkdir()
    for number in range(13):
        sound, found, reached = [], [], 0.0
        for row in rows[3 * number : 3 * number + 3]:
            samples, rate = soundfile.read(clips / "clips" / row["path"])
            sound += [samples, np.zeros(rate // 2)]
            found.append(Annotation(reached, reached + len(samples) / rate, row["sentence"]))
            reached += len(samples) / rate + 0.5
        found.append(Annotation(reached - 0.4, reached - 0.1, "***"))
        name = "new" if number == 12 else f"tape {number}"
        media = folder / f"project/{name}.wav"
        soundfile.write(media, np.concatenate(sound), rate)
        tier = Tier("tx@Ana", tuple(found), "Ana", "utterance")
        if name == "new":
            lines = "".join(f"{each.value}\n" for each in found[:-1])
            (folder / "new.txt").write_text(lines, encoding="utf-8")
            marked = tuple(Annotation(a.start_s, a.end_s, "") for a in found)
            tier = Tier("ref", marked, "Ana", "utterance")
        data = make_eaf([tier], media, datetime.now(UTC), media.parent)
        (folder / f"project/{name}.eaf").write_bytes(data)


@pytest.mark.slow
def test_the_tutorial_runs(tmp_path: Path) -> None:
    make_project(tmp_path)
    (tmp_path / "my.yaml").write_text(RECIPE, encoding="utf-8")
    told = TUTORIAL.read_text(encoding="utf-8").partition("## What is written")[0]
    commands = re.findall(r"^    arborvox (.+)$", told, re.MULTILINE)
    assert len(commands) == 8
    for command in commands:
        arborvox(tmp_path, *shlex.split(command))
    names = [tier.name for tier in read_eaf(tmp_path / "project/new.eaf").tiers]
    assert names == ["ref", "heard", "heard words", "heard confidence"]
    assert len(read_textgrid(tmp_path / "heard/new.TextGrid").tiers) == 3
    assert read_eaf(tmp_path / "heard/new.eaf").media[0].relative_url == "../project/new.wav"
    assert len(read_eaf(tmp_path / "aligned.eaf").tiers) == 3
    assert (tmp_path / "tiers.png").read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / "extension/arborvox.cmdi").is_file()
