"""How fast a language model is made of much text, against KenLM's lmplz where it is.

    python benchmarks/lm.py TEXTS [--words 10000000] [--order 6] [--lmplz PATH] [--json out.json]

TEXTS is a folder of <language>.txt files. Their sentences are repeated until there are enough
words, with changes: of each copy after the first, one word in five gives way to another of its
language, and one in twenty has a letter changed. `arborvox lm` reads these files, normalises and
cuts them; lmplz gets the same units ready cut, with spaces between. Times are of whole processes,
the ARPA file included; memory is the highest that a process had.
"""

import argparse
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from publishing import print_table, publish

from arborvox.lm.arpa import SPACE
from arborvox.report.document import Cell, Table
from arborvox.tokens import TextCorpus

REPLACED, MISSPELT = 0.2, 0.05
BARS = {"seconds": 120.0, "gigabytes": 2.0}


class Usage(NamedTuple):
    """What a process took."""

    seconds: float
    gigabytes: float


def make_text(sources: Path, folder: Path, num_words: int) -> tuple[int, int]:
    """Write <language>.txt files of so many words together; returns words and units."""
    sentences: dict[str, list[list[str]]] = {}
    for sentence in TextCorpus([sources]):
        sentences.setdefault(sentence.language, []).append(sentence.text.split())
    total = sum(len(words) for lines in sentences.values() for words in lines)
    copies = -(-num_words // total)
    made = units = 0
    for language, lines in sentences.items():
        share = num_words * sum(map(len, lines)) // total
        with (folder / f"{language}.txt").open("w", encoding="utf-8") as file:
            for words in _changed(lines, copies, random.Random(language)):
                if share <= 0:
                    break
                text = " ".join(words)
                file.write(f"{text}\n")
                share, made, units = share - len(words), made + len(words), units + len(text)
    return made, units


def _changed(lines: list[list[str]], copies: int, rng: random.Random) -> Iterator[list[str]]:
    vocabulary = [word for words in lines for word in words]
    letters = sorted({letter for word in vocabulary for letter in word if letter.isalpha()})
    yield from lines
    for _ in range(copies):
        for words in lines:
            yield [_changed_word(word, vocabulary, letters, rng) for word in words]


def _changed_word(word: str, vocabulary: list[str], letters: list[str], rng: random.Random) -> str:
    chance = rng.random()
    if chance < REPLACED:
        return vocabulary[int(rng.random() * len(vocabulary))]
    if chance < REPLACED + MISSPELT:
        place = int(rng.random() * len(word))
        letter = letters[int(rng.random() * len(letters))]
        return word[:place] + letter + word[place + 1 :]
    return word


def write_units(folder: Path, path: Path) -> None:
    """Write the text as lmplz takes it: units with spaces between."""
    with path.open("w", encoding="utf-8") as file:
        for sentence in TextCorpus([folder]):
            cut = " ".join(SPACE if unit == " " else unit for unit in sentence.text)
            file.write(f"{cut}\n")


def watch(command: list[str], stdin: Path | None = None, stdout: Path | None = None) -> Usage:
    """Run a command; return its time and the highest memory it had."""
    source = stdin.open("rb") if stdin else subprocess.DEVNULL
    target = stdout.open("wb") if stdout else None
    start = time.perf_counter()
    process = subprocess.Popen(command, stdin=source, stdout=target)
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - start
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit(f"{command[0]} ended with {process.returncode}")
    return Usage(seconds, usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024) / 1e9)


def describe(name: str, usage: Usage, size_bytes: int, other: Usage | None) -> tuple[Cell, ...]:
    """Return a row of the table."""
    ratio = f"{usage.seconds / other.seconds:.2f}" if other else ""
    cells = (f"{usage.seconds:.1f}", f"{usage.gigabytes:.2f}", f"{size_bytes / 1e9:.2f}", ratio)
    return (Cell(name), *map(Cell, cells))


def main() -> None:
    """Make the text, make the models, print the figures."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("texts", type=Path, help="a folder of <language>.txt files")
    parser.add_argument("--words", type=int, default=10_000_000)
    parser.add_argument("--order", type=int, default=6)
    parser.add_argument("--lmplz", type=Path, help="KenLM's lmplz, built from its source")
    parser.add_argument("--folder", type=Path, default=None, help="scratch space (temporary)")
    parser.add_argument("--json", type=Path, help="write the figures here")
    options = parser.parse_args()
    load_before = os.getloadavg()[0]
    scratch = Path(tempfile.mkdtemp(prefix="arborvox-lm-", dir=options.folder))
    try:
        text, tokens, arpa = scratch / "text", scratch / "tokens.json", scratch / "lm.arpa"
        text.mkdir()
        num_words, num_units = make_text(options.texts, text, options.words)
        print(f"{num_words:,} words, {num_units:,} units", flush=True)
        arborvox = [sys.executable, "-m", "arborvox", "--quiet"]
        subprocess.run([*arborvox, "tokens", text, "--out", tokens], check=True)
        making = [*arborvox, "lm", str(text), "--tokens", str(tokens), "--out", str(arpa)]
        order = ["--order", str(options.order)]
        ours = watch([*making, *order])
        rows = [("arborvox lm", ours, arpa.stat().st_size)]
        theirs = None
        if options.lmplz:
            units = scratch / "units.txt"
            write_units(text, units)
            command = [str(options.lmplz), *order, "--discount_fallback", "-S", "1G"]
            theirs = watch([*command, "-T", str(scratch)], units, arpa)
            rows.append(("lmplz", theirs, arpa.stat().st_size))
        header = ("", "seconds", "peak memory (GB)", "ARPA file (GB)", "time as a ratio to lmplz")
        table = Table(header, tuple(describe(*row, theirs) for row in rows))
        print_table(table)
        if options.json:
            figures = {
                "words": num_words,
                "units": num_units,
                "load_average_before": load_before,
                "load_average_after": os.getloadavg()[0],
                "bars": BARS,
                "usage": {name: usage._asdict() for name, usage, _ in rows},
            }
            publish(options.json, {"lm": table}, samples=figures)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


if __name__ == "__main__":
    main()
