"""How far boundaries of phones are from hand-made ones, against a straight CTC segmentation.

The recordings are VoxAngeles' (github.com/pacscilab/voxangeles, data/audited_aligned unpacked: a
folder for each language with .wav and .TextGrid files). The model has units `phone`; no language
that is measured may be among those that it heard. The shift of what CTC alone tells is learned on
languages that it did hear, and on no other. A recording of n phones has n + 1 boundaries: where
each phone begins, and where the last one ends.

Run: python benchmarks/alignment.py RUN VOXANGELES --test bin,sbc --train ady,afr --json out.json
With --long a whole recording instead: see long_alignment.py.
Run: python benchmarks/alignment.py RUN MANIFEST --long 2 --json out.json
"""

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from long_alignment import measure_long
from numpy.typing import NDArray
from publishing import print_table, publish

from arborvox import audio, load
from arborvox.align import align_text
from arborvox.annotations import read_textgrid
from arborvox.config import DecodeConfig
from arborvox.decode import ctc_kernels
from arborvox.decode.kinship import nearest_phones
from arborvox.errors import ArborvoxError
from arborvox.recognizer import Recognizer
from arborvox.report.document import Cell, Table
from arborvox.tokens import UNK_ID

TIERS = ("phones", "phone")  # its name differs from language to language
BARS_MS = (25, 50, 100)
WAYS = ("straight CTC", "straight CTC, shifted", "arborvox align, not shifted", "arborvox align")


@dataclass(frozen=True)
class Spoken:
    """A recording with its phones and their boundaries, by hand."""

    language: str
    samples: NDArray[np.float32]
    phones: tuple[str, ...]
    edges_s: tuple[float, ...]


def read_spoken(root: Path, languages: Sequence[str], rate: int) -> Iterator[Spoken]:
    """Yield the recordings of languages that have phones."""
    for language in languages:
        paths = sorted((root / language).rglob("*.TextGrid"))
        if not paths:
            raise ArborvoxError(f"{root / language} holds no TextGrids.")
        for path in paths:
            grid = read_textgrid(path)
            tier = next((tier for tier in grid.tiers if tier.name in TIERS), None)
            sound = path.with_suffix(".wav")
            if tier is None or not sound.is_file():
                continue
            marked = [each for each in tier.annotations if each.value.strip()]
            if marked:
                phones = tuple(each.value.strip() for each in marked)
                edges_s = (*(each.start_s for each in marked), marked[-1].end_s)
                yield Spoken(language, audio.load(sound, rate), phones, edges_s)


def straight_edges(recognizer: Recognizer, spoken: Spoken) -> list[float] | None:
    """Return the boundaries by the best CTC path over the whole recording, as it is."""
    engine = recognizer.engine
    strange = [p for p in spoken.phones if UNK_ID in engine.tokenizer.encode(p)]
    others = nearest_phones(strange, engine.tokenizer)  # as `align` does, so that all are alike
    text = " ".join(others.get(phone, phone) for phone in spoken.phones)
    tokens = np.array(engine.tokenizer.encode(text), np.int64)
    scores, lens = engine.ctc_scores([engine.features(spoken.samples)])
    frames, means = np.empty((len(tokens), 2), np.int64), np.empty(len(tokens))
    log_probs = scores.log_probs[0, : lens[0]]
    if not ctc_kernels.align(log_probs, scores.columns[tokens], frames, means):
        return None
    return [float(at) * engine.frame_s for at in (*frames[:, 0], frames[-1, 1])]


def our_edges(recognizer: Recognizer, spoken: Spoken, shift_s: float) -> list[float] | None:
    """Return the boundaries by `arborvox align`; None if any phone was not found."""
    rate = recognizer.engine.input.sampling_rate
    text = [" ".join(spoken.phones)]
    found = align_text(recognizer, spoken.samples, text, exact=True, shift_s=shift_s, rate=rate)
    words = [word for segment in found.transcript.segments for word in segment.words]
    edges = [*(word.start_s for word in words), *(word.end_s for word in words[-1:])]
    known = [at_s for at_s in edges if at_s is not None]
    return known if len(known) == len(spoken.edges_s) else None


def learn_shifts(recognizer: Recognizer, root: Path, languages: Sequence[str]) -> tuple[float, ...]:
    """Return what makes the median error nought on languages that were heard, for both ways.

    For ours it is learned between phones, as edges at pauses are not moved by it.
    """
    rate = recognizer.engine.input.sampling_rate
    straight: list[float] = []
    ours: list[float] = []
    for spoken in read_spoken(root, languages, rate):
        plain, found = straight_edges(recognizer, spoken), our_edges(recognizer, spoken, 0.0)
        if plain is not None and found is not None:
            straight += np.subtract(plain, spoken.edges_s).tolist()
            ours += np.subtract(found, spoken.edges_s)[1:-1].tolist()
    return -float(np.median(straight)), -float(np.median(ours))


def measure(errors_s: Sequence[float]) -> list[Cell]:
    """Return the median of absolute errors, and the shares within the bars."""
    absolute = np.abs(np.array(errors_s)) * 1000
    shares = [f"{100 * np.mean(absolute <= bar):.1f}" for bar in BARS_MS]
    return [Cell(text) for text in (f"{np.median(absolute):.1f}", *shares)]


def measure_boundaries(recognizer: Recognizer, options: argparse.Namespace) -> None:
    """Learn the shifts, measure all ways, and print the tables."""
    heard = set(recognizer.engine.tokenizer.languages)
    test, train = options.test.split(","), options.train.split(",")
    if heard & set(test):
        raise ArborvoxError(f"The model has heard {', '.join(sorted(heard & set(test)))}.")
    if not set(train) <= heard:
        raise ArborvoxError(f"The model never heard {', '.join(sorted(set(train) - heard))}.")
    rate = recognizer.engine.input.sampling_rate
    shifts = learn_shifts(recognizer, options.source, train)
    print(f"shifts: {shifts[0]:.4f} s (straight), {shifts[1]:.4f} s (arborvox)", flush=True)
    errors: dict[str, dict[str, list[list[float]]]] = {way: {} for way in WAYS}
    num_left_out = 0
    for spoken in read_spoken(options.source, test, rate):
        plain = straight_edges(recognizer, spoken)
        unshifted = our_edges(recognizer, spoken, 0.0)
        ours = our_edges(recognizer, spoken, shifts[1])
        if plain is None or unshifted is None or ours is None:
            num_left_out += 1  # for all alike
            continue
        shifted = [at_s + shifts[0] for at_s in plain]
        for way, found in zip(WAYS, (plain, shifted, unshifted, ours), strict=True):
            lists = errors[way].setdefault(spoken.language, [])
            lists.append(np.subtract(found, spoken.edges_s).tolist())
    if options.apart:
        kept = set(test) - set(options.apart.split(","))
        for by_language in errors.values():
            rest = [each for language in kept for each in by_language.get(language, ())]
            by_language[f"all but {options.apart.replace(',', ', ')}"] = rest
    titles = ("median, ms", *(f"within {bar} ms, %" for bar in BARS_MS))
    ways = []
    for way in WAYS:
        every = [each for language in test for each in errors[way].get(language, ())]
        ways.append((Cell(way), *measure([error for each in every for error in each])))
    last = every
    parts = {
        "where a word begins": [each[0] for each in last],
        "between phones": [error for each in last for error in each[1:-1]],
        "where a word ends": [each[-1] for each in last],
    }
    tables = {
        "ways": Table(("boundaries by", *titles), tuple(ways)),
        "parts": Table(
            ("arborvox align", "boundaries", *titles),
            tuple((Cell(n), Cell(f"{len(e):,}"), *measure(e)) for n, e in parts.items()),
        ),
        "languages": Table(
            ("language", "recordings", "boundaries", *titles),
            tuple(
                (
                    Cell(language),
                    Cell(f"{len(lists):,}"),
                    Cell(f"{sum(map(len, lists)):,}"),
                    *measure([error for each in lists for error in each]),
                )
                for language, lists in errors[WAYS[-1]].items()
            ),
        ),
    }
    for table in tables.values():
        print_table(table)
    print(f"left out, as no path fits: {num_left_out}")
    if options.json is not None:
        publish(
            options.json,
            tables,
            shifts_s=[round(shift, 4) for shift in shifts],
            recordings_left_out=num_left_out,
        )


def main() -> None:
    """Measure boundaries, or a long recording."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", type=Path)
    parser.add_argument("source", type=Path, help="VoxAngeles, or with --long a manifest")
    parser.add_argument("--test", default="", help="Languages to measure, never heard.")
    parser.add_argument("--train", default="", help="Languages to learn the shift on, heard.")
    parser.add_argument("--apart", default="", help="Of those, what the encoder's makers heard.")
    parser.add_argument("--long", type=float, help="Hours of utterances to make a recording of.")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    recognizer = load(options.run, DecodeConfig(mode="ctc-greedy", device="cpu"))
    if options.long is not None:
        measure_long(recognizer, options.source, options.long, options.json)
    else:
        measure_boundaries(recognizer, options)


if __name__ == "__main__":
    main()
