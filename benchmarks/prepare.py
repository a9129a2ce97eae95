"""How fast a large Common Voice release is prepared: rows a second and peak memory.

    python benchmarks/prepare.py [--rows 5000000] [--hours 450] [--folder DIR] [--json out.json]

Makes up a release in the real layout (15 languages of very different size, clip_durations.tsv, one
mp3 under many names), prepares it as the paper did, and prints rows/s and the peak memory of the
process and its workers together. The made-up release is removed afterwards.
"""

import argparse
import json
import os
import random
import shutil
import sys
import tempfile
from pathlib import Path

import numpy as np
import soundfile
from publishing import print_table, publish
from watching import watch

from arborvox.report.document import Cell, Table

LANGUAGES = "ca es fr it pt be cs pl ru uk ba ky tr tt uz".split()
LATIN = "abcdefghilmnoprstuvz"
CYRILLIC = "абвгдежзиклмнопрстуя"
IN_CYRILLIC = set("be ru uk ba ky tt".split())
LINKS_A_FILE = 30_000  # file systems limit how many names a file may have


def make_release(root: Path, num_rows: int) -> None:
    """Write the tables and clips of a release of that many validated rows."""
    shares = np.array([1 / (rank + 1) for rank in range(len(LANGUAGES))])
    sizes = np.floor(shares / shares.sum() * num_rows).astype(int)
    sizes[0] += num_rows - sizes.sum()
    for language, size in zip(LANGUAGES, sizes.tolist(), strict=True):
        _make_language(root / language, language, size)


def _make_language(folder: Path, language: str, size: int) -> None:
    rng = random.Random(language)
    letters = CYRILLIC if language in IN_CYRILLIC else LATIN
    words = ["".join(rng.choices(letters, k=rng.randint(2, 9))) for _ in range(20_000)]
    speakers = [f"{rng.getrandbits(512):0128x}" for _ in range(max(size // 50, 3))]
    clips = folder / "clips"
    clips.mkdir(parents=True)
    source = clips
    noise = np.random.default_rng(0).normal(0, 0.1, 48_000).astype(np.float32)
    with (
        (folder / "validated.tsv").open("w", encoding="utf-8") as table,
        (folder / "clip_durations.tsv").open("w", encoding="utf-8") as durations,
    ):
        columns = "client_id path sentence up_votes down_votes age gender accent locale segment"
        table.write("\t".join(columns.split()) + "\n")
        durations.write("clip\tduration[ms]\n")
        for number in range(size):
            name = f"common_voice_{language}_{number + 17_000_000}.mp3"
            sentence = " ".join(rng.choices(words, k=rng.randint(4, 12))).capitalize()
            speaker = rng.choice(speakers)
            table.write(f"{speaker}\t{name}\t{sentence}.\t2\t0\ttwenties\t\t\t{language}\t\n")
            durations.write(f"{name}\t{rng.randint(2000, 9000)}\n")
            if number % LINKS_A_FILE == 0:
                source = clips / name
                soundfile.write(source, noise, 48_000, format="MP3")
            else:
                os.link(source, clips / name)


def prepare_and_watch(
    root: Path, out: Path, hours: float | None, jobs: int | None = None
) -> tuple[float, float]:
    """Run `arborvox prepare`; return its seconds and its peak memory in GB, workers included."""
    command = [sys.executable, "-m", "arborvox", "prepare", "common-voice", str(root)]
    command += ["--out", str(out)] + (["--hours", str(hours)] if hours else [])
    command += ["--jobs", str(jobs)] if jobs else []
    measured = watch(command)
    return measured.seconds, measured.peak_gb


def main() -> None:
    """Make a release, prepare it thinned out and whole, print the figures."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--hours", type=float, default=450.0)
    parser.add_argument("--folder", type=Path, default=None, help="scratch space (temporary)")
    parser.add_argument("--json", type=Path, help="write the figures here")
    options = parser.parse_args()
    scratch = Path(tempfile.mkdtemp(prefix="arborvox-prepare-", dir=options.folder))
    try:
        print(f"making up {options.rows:,} rows (not timed)", flush=True)
        make_release(scratch / "release", options.rows)
        rows = []
        for hours in (options.hours, None):
            out = scratch / "out"
            seconds, peak = prepare_and_watch(scratch / "release", out, hours)
            stats = json.loads((out / "stats.json").read_text(encoding="utf-8"))
            kept = f"{stats['total']['train']['hours']:,.0f} h"
            asked = f"(`--hours {hours:g}`)" if hours else "(all)"
            cells = (f"{options.rows / seconds:,.0f}", f"{seconds:.1f}", f"{peak:.2f}")
            rows.append((Cell(f"{kept} {asked}"), *map(Cell, cells)))
        header = ("training kept", "rows/s", "seconds", "peak memory (GB)")
        table = Table(header, tuple(rows))
        print_table(table)
        if options.json:
            publish(options.json, {"prepare": table})
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


if __name__ == "__main__":
    main()
