"""How fast a language model is made of much text, and whether it is the one that KenLM makes.

    python benchmarks/lm.py [--texts FOLDER] [--words 10000000] [--kenlm FOLDER] [--json out.json]

FOLDER holds <language>.txt files; without it, `text` in the folder that ARBORVOX_DATA names. Their
sentences are repeated until there are enough words, with changes: of each copy after the first, one
word in five gives way to another of its language, and one in twenty has a letter changed.
`arborvox lm` reads these files, normalizes and cuts them; lmplz gets the same units ready cut, with
spaces between. Times are of whole processes, the ARPA file included; memory is the highest that a
process had. KenLM's programs lmplz and query are looked for in --kenlm, or else on the PATH;
without them there is no comparison.
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

from lmplz import SETTINGS, Agreement, Setting, compare, cut, lmplz_command
from publishing import print_table, publish

from arborvox.report.document import Cell, Table
from arborvox.tokens import TextCorpus

REPLACED, MISSPELT = 0.2, 0.05


class Usage(NamedTuple):
    """What a process took."""

    seconds: float
    processor_seconds: float  # of all its threads
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
            file.write(" ".join(cut(sentence.text, "char")) + "\n")


def watch(command: list[str], stdin: Path | None = None, stdout: Path | None = None) -> Usage:
    """Run a command; return its time and the highest memory it had."""
    with (stdin or Path(os.devnull)).open("rb") as source:
        start = time.perf_counter()
        with (stdout or Path(os.devnull)).open("wb") as target:
            process = subprocess.Popen(command, stdin=source, stdout=target)
            _, status, usage = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - start
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit(f"{command[0]} ended with {process.returncode}")
    peak_bytes = usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    return Usage(seconds, usage.ru_utime + usage.ru_stime, peak_bytes / 1e9)


def describe(name: str, usage: Usage, size_bytes: int, other: Usage | None) -> tuple[Cell, ...]:
    """Return a row of the table."""
    ratio = f"{usage.seconds / other.seconds:.2f}" if other else ""
    times = (f"{usage.seconds:.1f}", f"{usage.processor_seconds:.1f}")
    sizes = (f"{usage.gigabytes:.2f}", f"{size_bytes / 1e9:.2f}")
    return (Cell(name), *map(Cell, (*times, *sizes, ratio)))


def describe_agreement(setting: Setting, found: Agreement) -> tuple[Cell, ...]:
    """Return a row of the table of perplexities."""
    pruned = ",".join(map(str, setting.cut_offs)) if any(setting.cut_offs) else "no"
    name = {"char": "characters", "word": "words"}[setting.unit]
    difference = 100 * (found.ours / found.theirs - 1)
    cells = (str(setting.order), pruned, f"{found.ours:.4f}", f"{found.theirs:.4f}")
    return (Cell(name), *map(Cell, (*cells, f"{difference:+.0e}")))


def find_kenlm(folder: Path | None) -> Path | None:
    """Return the folder of KenLM's programs, if it is there."""
    if folder is not None:
        return folder
    found = shutil.which("lmplz")
    return Path(found).parent if found else None


def main() -> None:
    """Make the text, make the models, print the figures."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    data = Path(os.environ.get("ARBORVOX_DATA", "."))
    parser.add_argument("--texts", type=Path, default=data / "text", help="<language>.txt files")
    parser.add_argument("--words", type=int, default=10_000_000)
    parser.add_argument("--order", type=int, default=6)
    parser.add_argument("--kenlm", type=Path, help="the folder of lmplz and query")
    parser.add_argument("--folder", type=Path, default=None, help="scratch space (temporary)")
    parser.add_argument("--json", type=Path, help="write the figures here")
    options = parser.parse_args()
    kenlm = find_kenlm(options.kenlm)
    scratch = Path(tempfile.mkdtemp(prefix="arborvox-lm-", dir=options.folder))
    try:
        text, tokens, arpa = scratch / "text", scratch / "tokens.json", scratch / "lm.arpa"
        text.mkdir()
        num_words, num_units = make_text(options.texts, text, options.words)
        print(f"{num_words:,} words, {num_units:,} units", flush=True)
        arborvox = [sys.executable, "-m", "arborvox", "--quiet"]
        quiet = subprocess.DEVNULL
        subprocess.run([*arborvox, "tokens", text, "--out", tokens], stdout=quiet, check=True)
        load = {"before": os.getloadavg()[0]}
        making = [*arborvox, "lm", str(text), "--tokens", str(tokens), "--out", str(arpa)]
        ours = watch([*making, "--order", str(options.order)])
        rows = [("arborvox lm", ours, arpa.stat().st_size)]
        theirs = None
        tables = {}
        if kenlm:
            units = scratch / "units.txt"
            write_units(text, units)
            load["between"] = os.getloadavg()[0]
            command = lmplz_command(kenlm, options.order, [0], scratch)
            theirs = watch(command, units, arpa)
            rows.append(("lmplz", theirs, arpa.stat().st_size))
            columns = ("units", "order", "cut-offs", "arborvox lm", "lmplz", "difference (%)")
            corpus = list(TextCorpus([options.texts]))
            found = {each: compare(kenlm, corpus, each, scratch) for each in SETTINGS}
            tables["perplexity"] = Table(
                columns, tuple(describe_agreement(*pair) for pair in found.items())
            )
        load["after"] = os.getloadavg()[0]
        times = ("seconds", "processor seconds")
        header = ("", *times, "peak memory (GB)", "ARPA file (GB)", "seconds, ratio to lmplz")
        tables["speed"] = Table(header, tuple(describe(*row, theirs) for row in rows))
        for table in tables.values():
            print_table(table)
        if options.json:
            figures = {
                "words": num_words,
                "units": num_units,
                "load_average": load,
                "usage": {name: usage._asdict() for name, usage, _ in rows},
            }
            publish(options.json, tables, samples=figures)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


if __name__ == "__main__":
    main()
