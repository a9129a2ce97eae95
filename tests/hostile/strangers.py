"""Fifty inputs from strangers, each with the command that is given it.

A maker gets a folder of its own, in which it may write, the checkpoint of a sound model and a sound
recording; it returns the words of the command. `OUT` stands for the folder of results.
"""

import csv
import gzip
import io
import json
import os
import shutil
import struct
import wave
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import soundfile
import yaml

from arborvox.digests import checksum_file
from arborvox.manifest import Utterance, cut_line

OUT = "OUT"


class Sound(NamedTuple):
    """What is not hostile."""

    model: Path
    recording: Path


Maker = Callable[[Path, Sound], list[str]]


def recipe(text: str) -> Maker:
    """A recipe, shown."""

    def make(folder: Path, sound: Sound) -> list[str]:
        (folder / "recipe.yaml").write_bytes(text.encode("utf-8", "surrogatepass"))
        return ["config", "show", str(folder / "recipe.yaml")]

    return make


def experiment(text: str) -> Maker:
    """A recipe, run on a table beside it."""

    def make(folder: Path, sound: Sound) -> list[str]:
        write_table(folder / "table.csv", sound, [("x-a", "abc"), ("x-a", "bca"), ("x-a", "cab")])
        (folder / "recipe.yaml").write_text(text.replace("TABLE", str(folder / "table.csv")))
        return ["run", str(folder / "recipe.yaml"), "--out", OUT]

    return make


def checkpoint(change: Callable[[Path], None], *, sealed: bool = True) -> Maker:
    """A changed checkpoint, used to transcribe a sound recording."""

    def make(folder: Path, sound: Sound) -> list[str]:
        model = shutil.copytree(sound.model, folder / "model")
        change(model)
        if sealed:
            head = json.loads((model / "checkpoint.json").read_text())
            head["sha256"] = {name: checksum_file(model / name) for name in head["sha256"]}
            (model / "checkpoint.json").write_text(json.dumps(head))
        return ["transcribe", str(model), str(sound.recording), "--out", OUT]

    return make


def configuration(section: str, **values: Any) -> Maker:
    """A checkpoint whose configuration says something else."""

    def change(model: Path) -> None:
        config = yaml.safe_load((model / "config.yaml").read_text(encoding="utf-8"))
        config[section] |= values
        (model / "config.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")

    return checkpoint(change)


def overwritten(name: str, content: bytes) -> Callable[[Path], None]:
    """A change: a file of the checkpoint holds something else."""
    return lambda model: (model / name).write_bytes(content) and None


def weights(number: float) -> Callable[[Path], None]:
    """A change: all weights are one number."""

    def change(model: Path) -> None:
        data = bytearray((model / "model.safetensors").read_bytes())
        (length,) = struct.unpack("<Q", data[:8])
        np.frombuffer(data, np.float32, offset=8 + length)[:] = number
        (model / "model.safetensors").write_bytes(data)

    return change


def manifest(*changes: tuple[str, Any], language: str = "ca", text: str = "ab") -> Maker:
    """A manifest with a changed cut, decoded."""

    def make(folder: Path, sound: Sound) -> list[str]:
        told = Utterance("a", str(sound.recording), language, text, 16_000, 16_000)
        cut = json.loads(cut_line(told))
        for key, value in changes:
            place = cut
            *way, last = key.split(".")
            for step in way:
                place = place[int(step)] if step.isdigit() else place[step]
            place[last] = value
        return packed(json.dumps(cut).encode() + b"\n")(folder, sound)

    return make


def packed(content: bytes, *, cut: int = 0) -> Maker:
    """A packed manifest of any content, decoded."""

    def make(folder: Path, sound: Sound) -> list[str]:
        data = gzip.compress(content, mtime=0)
        (folder / "cuts.jsonl.gz").write_bytes(data[: len(data) - cut])
        command = ["decode", str(sound.model), str(folder / "cuts.jsonl.gz")]
        return [*command, "--out", f"{OUT}/hyps.jsonl"]

    return make


def table(content: str | bytes, ending: str = ".csv") -> Maker:
    """A table of any content, with four recordings beside it, prepared."""

    def make(folder: Path, sound: Sound) -> list[str]:
        for number in range(4):
            shutil.copy(sound.recording, folder / f"{number}.wav")
        data = content.encode("utf-8", "surrogatepass") if isinstance(content, str) else content
        (folder / f"table{ending}").write_bytes(data)
        return ["prepare", "folder", str(folder / f"table{ending}"), "--out", OUT]

    return make


def recording(name: str, content: Callable[[Sound], bytes]) -> Maker:
    """A recording of any content, transcribed."""

    def make(folder: Path, sound: Sound) -> list[str]:
        (folder / name).write_bytes(content(sound))
        return ["transcribe", str(sound.model), str(folder / name), "--out", OUT]

    return make


def result(command: str, *contents: str) -> Maker:
    """Files of hypotheses, scored or compared."""

    def make(folder: Path, sound: Sound) -> list[str]:
        files = []
        for number, content in enumerate(contents):
            files.append(str(folder / f"{number}.jsonl"))
            Path(files[-1]).write_bytes(content.encode("utf-8", "surrogatepass"))
        return [command, *files]

    return make


def write_table(path: Path, sound: Sound, rows: list[tuple[str, str]]) -> None:
    """Write a table whose rows all name one recording."""
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(["path", "text", "language"])
    writer.writerows([(sound.recording, text, language) for language, text in rows])
    path.write_text(text.getvalue(), encoding="utf-8")


def odd_names(folder: Path, sound: Sound) -> list[str]:
    """A folder whose files have names that are no text."""
    for name in (b"a", b"caf\xe9", b"a\nb", b"x" * 240, b"..."):
        for ending, content in ((b".wav", sound.recording.read_bytes()), (b".txt", b"ab")):
            (folder / os.fsdecode(name + ending)).write_bytes(content)
    return ["prepare", "folder", str(folder), "--language", "ca", "--out", OUT]


def odd_recordings(folder: Path, sound: Sound) -> list[str]:
    """Recordings whose names are no text, transcribed."""
    command = odd_names(folder, sound)
    return ["transcribe", str(sound.model), command[2], "--out", OUT]


def ogg_without_end(sound: Sound) -> bytes:
    """Half an Ogg file."""
    samples, rate = soundfile.read(sound.recording)
    file = io.BytesIO()
    soundfile.write(file, samples, rate, format="OGG")
    return file.getvalue()[: len(file.getvalue()) // 2]


def wave_header(rate: int, channels: int, num_bytes: int) -> bytes:
    """A WAVE file that promises more than it holds."""
    file = io.BytesIO()
    with wave.open(file, "wb") as writer:
        writer.setnchannels(1)
        writer.setsampwidth(2)
        writer.setframerate(16_000)
        writer.writeframes(b"\0\0" * 100)
    data = bytearray(file.getvalue())
    data[22:24], data[24:28] = struct.pack("<H", channels), struct.pack("<I", rate)
    data[40:44] = struct.pack("<I", num_bytes)
    return bytes(data)


def stored_report(folder: Path, sound: Sound) -> list[str]:
    """An experiment that names files elsewhere."""
    told = {"arborvox_experiment": 2, "name": "x", "models": [], "stats": "../../../etc/passwd"}
    (folder / "experiment.json").write_text(json.dumps(told))
    return ["report", str(folder)]


def grown(levels: int) -> str:
    """YAML that holds ten times as much with each level."""
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    for level in range(1, levels):
        lines.append(f"a{level}: &a{level} [{', '.join([f'*a{level - 1}'] * 10)}]")
    return "\n".join(lines) + "\n"


def many_tokens(languages: int, units: int) -> bytes:
    """A vocabulary that grows when it is laid out as a table."""
    value = {
        "format": "arborvox-tokens", "version": 1, "unit": "char",
        "languages": [f"x-{number}" for number in range(languages)],
        "units": [[f"u{number}", {}] for number in range(units)],
    }  # fmt: skip
    return json.dumps(value).encode()


CUT = "recording.sources.0.source"
HEAD = '{"arborvox_hypotheses": 2, "unit": "char", "run": "x", "mode": "joint"}\n'
LINE = '{"id": "a", "language": "ca", "reference": "ab", "text": "ac"}\n'
RUN = "corpus: {kind: folder, source: TABLE}\nmodel: {size: tiny}\ntrain: {max_steps: 1}\n"

INPUTS: dict[str, Maker] = {
    "recipe of aliases": recipe(grown(10)),
    "deep recipe": recipe("a: " + "[" * 5000),
    "recipe with a long number": recipe(f"train: {{max_steps: {'9' * 5000}}}"),
    "recipe of a million keys": recipe("\n".join(f"k{n}: 1" for n in range(300_000))),
    "recipe with bad text": recipe("name: \ud800\0"),
    "recipe based on itself": recipe("base: recipe.yaml"),
    "recipe based on a place elsewhere": recipe("base: ../../../../etc/passwd"),
    "recipe with tags": recipe("name: !!python/object/apply:os.system [id]"),
    "run of a giant": experiment(RUN + "features: {num_mels: 1000000000}\n"),
    "run of one kind of sentence": experiment(RUN),
    "wide checkpoint": configuration("model", width=2_000_000, heads=2),
    "checkpoint of many layers": configuration("model", encoder_layers=10**6),
    "checkpoint of many bands": configuration("features", num_mels=10**9),
    "checkpoint of one sample": configuration("features", sampling_rate=1),
    "checkpoint of short windows": configuration("features", shift_s=1e-9),
    "checkpoint that decides how to search": configuration("decode", beam=10**9),
    "checkpoint with aliases": checkpoint(overwritten("config.yaml", grown(10).encode())),
    "checkpoint of NaN": checkpoint(weights(float("nan"))),
    "checkpoint of huge weights": checkpoint(weights(1e38)),
    "checkpoint of nought": checkpoint(weights(0.0)),
    "checkpoint with a long header": checkpoint(
        overwritten("model.safetensors", struct.pack("<Q", 2**62) + b"{}")
    ),
    "checkpoint of many tokens": checkpoint(
        overwritten("tokens.json", many_tokens(60_000, 60_000))
    ),
    "checkpoint with a deep tree": checkpoint(overwritten("tree.json", b"[" * 200_000)),
    "checkpoint whose head is a list": checkpoint(
        overwritten("checkpoint.json", b"[1, 2]"), sealed=False
    ),
    "checkpoint with other tokens": checkpoint(
        overwritten("tokens.json", many_tokens(1, 8)), sealed=False
    ),
    "manifest of no duration": manifest(("duration", float("nan"))),
    "manifest of endless duration": manifest(("duration", float("inf"))),
    "manifest of negative duration": manifest(("duration", -3.0)),
    "manifest of long recordings": manifest(("recording.num_samples", 10**15), ("duration", 1e9)),
    "manifest with a list as id": manifest(("id", ["a"])),
    "manifest with half a character": manifest(("supervisions.0.text", "\ud800")),
    "manifest with a command": manifest(("recording.sources.0.type", "command"), (CUT, "touch x")),
    "manifest with a device": manifest((CUT, "/dev/zero")),
    "manifest with a language elsewhere": manifest(language="../../x"),
    "manifest of one long line": packed(b" " * (300 << 20)),
    "manifest that is cut off": packed(b'{"id": 1}\n' * 1000, cut=9),
    "table with an open quote": table('path,text\n0.wav,"ab\n1.wav,ba\n2.wav,aab\n'),
    "table with a language elsewhere": table("path,text,language\n0.wav,ab,../../../x\n"),
    "table with a path elsewhere": table("path,text\n../../../etc/passwd,ab\n/dev/zero,ab\n"),
    "table of zero bytes": table(b"\0" * 100_000),
    "table in UTF-16": table("path,text\n0.wav,ab\n1.wav,ba\n".encode("utf-16")),
    "table of numbers": table('{"path": 1, "text": 2}\n{"path": "0.wav", "text": NaN}\n', ".jsonl"),
    "table with a long text": table(f"path,text\n0.wav,{'ab' * 10_000}\n"),
    "names that are no text": odd_names,
    "recordings whose names are no text": odd_recordings,
    "Ogg without an end": recording("a.ogg", ogg_without_end),
    "wave of many channels": recording("a.wav", lambda _: wave_header(16_000, 65_535, 200)),
    "wave of four gigabytes": recording("a.wav", lambda _: wave_header(1, 1, 2**32 - 1)),
    "hypotheses with half a character": result("score", HEAD + LINE.replace("ac", "\\ud800")),
    "experiment that names files elsewhere": stored_report,
}
