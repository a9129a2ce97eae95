"""How fast, in what memory and how steadily a whole transcript is aligned with a long recording.

Utterances of a manifest become one recording, with pauses between them; their texts the
transcript. A word keeps its place if it begins within 0.2 s of where it does with the whole
transcript.
"""

import random
import resource
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import soundfile
from publishing import print_table, publish

from arborvox import audio
from arborvox.align import align_text
from arborvox.decode.segments import cut_spans
from arborvox.manifest import Utterance, load_manifest
from arborvox.recognizer import Recognizer
from arborvox.report.document import Cell, Table

DAMAGED, PLACE_S = 0.1, 0.2
PAUSES_S = (0.1, 1.2)
# The shorter recording comes first, to see what memory grows with.
PARTS = (0.25, 1.0)


@dataclass(frozen=True)
class Tape:
    """A recording made of utterances: where each lies, and what is said in it."""

    path: Path
    spans_s: tuple[tuple[float, float], ...]
    lines: tuple[str, ...]
    duration_s: float


@dataclass(frozen=True)
class Aligned:
    """The begin of every word, None where it was not found, and what that took."""

    starts_s: tuple[tuple[float | None, ...], ...]  # by line
    seconds: float
    peak_mb: float


def make_tape(utterances: Sequence[Utterance], hours: float, path: Path, rate: int) -> Tape:
    """Write utterances one after the other, with pauses of faint noise between them."""
    chance = np.random.default_rng(0)
    spans, lines = [], []
    reached = 0
    with soundfile.SoundFile(path, "w", rate, 1, subtype="PCM_16") as file:
        for utterance in utterances:
            if reached >= hours * 3600 * rate:
                break
            pause = round(chance.uniform(*PAUSES_S) * rate)
            file.write(1e-4 * chance.normal(size=pause))
            span = [(utterance.start_s, utterance.start_s + utterance.duration_s)]
            (cut,) = cut_spans(audio.stream(Path(utterance.audio), rate), rate, span)
            file.write(cut.samples)
            begin = (reached + pause) / rate
            reached += pause + len(cut.samples)
            spans.append((begin, reached / rate))
            lines.append(utterance.text)
    return Tape(path, tuple(spans), tuple(lines), reached / rate)


def align(recognizer: Recognizer, tape: Tape, lines: Sequence[str]) -> Aligned:
    """Align a transcript, and watch."""
    began = time.perf_counter()
    found = align_text(recognizer, tape.path, lines)
    seconds = time.perf_counter() - began
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    segments = iter(found.transcript.segments)
    starts = []
    for line, fit in zip(lines, found.fits, strict=True):
        if fit.num_found:
            starts.append(tuple(word.start_s for word in next(segments).words))
        else:
            starts.append((None,) * len(line.split()))
    return Aligned(tuple(starts), seconds, peak_mb)


def damage(lines: Sequence[str], how: str) -> tuple[list[str], list[list[int | None]]]:
    """Remove or double a tenth of the words; also return which old word each new one is."""
    chance = random.Random(0)
    texts, origins = [], []
    for line in lines:
        words: list[str] = []
        origin: list[int | None] = []
        for place, word in enumerate(line.split()):
            if chance.random() >= DAMAGED:
                words.append(word)
                origin.append(place)
            elif how == "doubled" or (how == "removed or doubled" and chance.random() < 0.5):
                words += [word, word]
                origin += [None, None]
        texts.append(" ".join(words))
        origins.append(origin)
    return texts, origins


def kept_share(whole: Aligned, damaged: Aligned, origins: Sequence[Sequence[int | None]]) -> float:
    """Return the share of untouched words that begin where they did."""
    kept = []
    for before, after, origin in zip(whole.starts_s, damaged.starts_s, origins, strict=True):
        for start_s, place in zip(after, origin, strict=True):
            old_s = None if place is None else before[place]
            if old_s is not None:
                kept.append(start_s is not None and abs(start_s - old_s) <= PLACE_S)
    return float(np.mean(kept))


def inside_share(tape: Tape, whole: Aligned) -> tuple[float, float]:
    """Return the share of words that were found, and of all that lie in their own utterance."""
    found, inside = [], []
    for (begin_s, end_s), starts in zip(tape.spans_s, whole.starts_s, strict=True):
        for start_s in starts:
            found.append(start_s is not None)
            near = start_s is not None and begin_s - PLACE_S <= start_s <= end_s + PLACE_S
            inside.append(near)
    return float(np.mean(found)), float(np.mean(inside))


def measure_long(recognizer: Recognizer, manifest: Path, hours: float, json: Path | None) -> None:
    """Make the recordings, align them whole and damaged, and print the tables."""
    rate = recognizer.engine.input.sampling_rate
    utterances = load_manifest(manifest)
    random.Random(0).shuffle(utterances)
    recognizer.engine.rehearse()
    speed, steadiness = [], []
    with tempfile.TemporaryDirectory(prefix="arborvox-alignment-") as folder:
        for part in PARTS:
            tape = make_tape(utterances, hours * part, Path(folder) / f"{part}.wav", rate)
            if part == PARTS[0]:
                align(recognizer, tape, tape.lines[:10])  # compiles the loops
            whole = align(recognizer, tape, tape.lines)
            found, inside = inside_share(tape, whole)
            row = (
                f"{tape.duration_s / 3600:.2f}",
                f"{sum(len(line.split()) for line in tape.lines):,}",
                f"{whole.seconds:.1f}",
                f"{whole.seconds / tape.duration_s:.4f}",
                f"{whole.peak_mb:,.0f}",
                f"{100 * found:.1f}",
                f"{100 * inside:.1f}",
            )
            speed.append(tuple(map(Cell, row)))
            print(" ".join(row), flush=True)
        for how in ("removed", "doubled", "removed or doubled"):
            lines, origins = damage(tape.lines, how)
            kept = kept_share(whole, align(recognizer, tape, lines), origins)
            steadiness.append((Cell(how), Cell(f"{100 * kept:.2f}")))
            print(how, kept, flush=True)
    header = ("hours", "words", "seconds", "of real time", "peak memory, MB", "words found, %")
    tables = {
        "speed": Table((*header, "in their own utterance, %"), tuple(speed)),
        "steadiness": Table(("a tenth of the words", "others in place, %"), tuple(steadiness)),
    }
    for table in tables.values():
        print_table(table)
    if json is not None:
        publish(json, tables)
