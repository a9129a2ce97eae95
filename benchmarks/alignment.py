"""How far boundaries of phones are from hand-made ones, against a straight CTC segmentation.

The recordings are VoxAngeles' (github.com/pacscilab/voxangeles, data/audited_aligned unpacked: a
folder for each language with .wav and .TextGrid files). The model has units `phone`; no language
that is measured may be among those that it heard. The shift of all times is learned on languages
that it did hear, and on no other.

Run: python benchmarks/alignment.py RUN VOXANGELES --test bin,sbc --train ady,afr --json out.json
"""

import argparse
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from arborvox import audio, load
from arborvox.align import align_text
from arborvox.annotations import read_textgrid
from arborvox.config import DecodeConfig
from arborvox.decode import ctc_kernels
from arborvox.errors import ArborvoxError
from arborvox.recognizer import Recognizer
from arborvox.tokens import UNK_ID

TIERS = ("phones", "phone")  # its name differs from language to language
BARS_S = (0.025, 0.05, 0.1)


@dataclass(frozen=True)
class Spoken:
    """A recording with its phones and when each begins, by hand."""

    language: str
    name: str
    samples: NDArray[np.float32]
    phones: tuple[str, ...]
    starts_s: tuple[float, ...]


def read_spoken(root: Path, language: str, rate: int) -> Iterator[Spoken]:
    """Yield the recordings of a language that have phones."""
    for path in sorted((root / language).rglob("*.TextGrid")):
        grid = read_textgrid(path)
        tier = next((tier for tier in grid.tiers if tier.name in TIERS), None)
        sound = path.with_suffix(".wav")
        if tier is None or not sound.is_file():
            continue
        marked = [each for each in tier.annotations if each.value.strip()]
        if marked:
            phones = tuple(each.value.strip() for each in marked)
            starts_s = tuple(each.start_s for each in marked)
            yield Spoken(language, path.stem, audio.load(sound, rate), phones, starts_s)


def straight_starts(recognizer: Recognizer, spoken: Spoken) -> list[float] | None:
    """Return when phones begin by the best CTC path over the whole recording, as it is."""
    engine = recognizer.engine
    tokens = np.array(engine.tokenizer.encode(" ".join(spoken.phones)), np.int64)
    scores, lens = engine.ctc_scores([engine.features(spoken.samples)])
    frames, means = np.empty((len(tokens), 2), np.int64), np.empty(len(tokens))
    log_probs = scores.log_probs[0, : lens[0]]
    if not ctc_kernels.align(log_probs, scores.columns[tokens], frames, means):
        return None
    return [float(begin) * engine.frame_s for begin, _ in frames]


def our_starts(recognizer: Recognizer, spoken: Spoken, shift_s: float) -> list[float] | None:
    """Return when phones begin by `arborvox align`; None if any was not found."""
    rate = recognizer.engine.input.sampling_rate
    found = align_text(
        recognizer,
        spoken.samples,
        [" ".join(spoken.phones)],
        exact=True,
        shift_s=shift_s,
        rate=rate,
    )
    starts = [w.start_s for segment in found.transcript.segments for w in segment.words]
    known = [start_s for start_s in starts if start_s is not None]
    return known if len(known) == len(spoken.phones) else None


def measure(errors_s: Sequence[float]) -> dict[str, float]:
    """Return the median of absolute errors, and the shares within the bars."""
    absolute = np.abs(np.array(errors_s))
    shares = {f"within_{round(bar * 1000)}_ms": float(np.mean(absolute <= bar)) for bar in BARS_S}
    return {"boundaries": len(absolute), "median_ms": float(np.median(absolute)) * 1000, **shares}


def main() -> None:
    """Learn the shift, measure both ways, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", type=Path)
    parser.add_argument("voxangeles", type=Path)
    parser.add_argument("--test", required=True, help="Languages to measure, never heard.")
    parser.add_argument("--train", required=True, help="Languages to learn the shift on, heard.")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    recognizer = load(options.run, DecodeConfig(mode="ctc-greedy"))
    heard = set(recognizer.engine.tokenizer.languages)
    test, train = options.test.split(","), options.train.split(",")
    if heard & set(test):
        raise ArborvoxError(f"The model has heard {', '.join(sorted(heard & set(test)))}.")
    if not set(train) <= heard:
        raise ArborvoxError(f"The model never heard {', '.join(sorted(set(train) - heard))}.")
    rate = recognizer.engine.input.sampling_rate
    late_s: list[float] = []
    for language in train:
        for spoken in read_spoken(options.voxangeles, language, rate):
            found = our_starts(recognizer, spoken, 0.0)
            if found is not None:
                late_s += np.subtract(found, spoken.starts_s).tolist()
    shift_s = -float(np.median(late_s)) if late_s else 0.0
    ways = ("straight", "unshifted", "arborvox")
    errors: dict[str, list[float]] = {way: [] for way in ways}
    left_out = {"unknown phones": 0, "not found": 0}
    for language in test:
        for spoken in read_spoken(options.voxangeles, language, rate):
            if UNK_ID in recognizer.engine.tokenizer.encode(" ".join(spoken.phones)):
                left_out["unknown phones"] += 1
                continue
            found_by = {
                "straight": straight_starts(recognizer, spoken),
                "unshifted": our_starts(recognizer, spoken, 0.0),
                "arborvox": our_starts(recognizer, spoken, shift_s),
            }
            if any(found is None for found in found_by.values()):
                left_out["not found"] += 1  # for all alike
                continue
            for way, found in found_by.items():
                errors[way] += np.subtract(found or [], spoken.starts_s).tolist()
    result = {
        "test_languages": test,
        "shift_s": round(shift_s, 4),
        "recordings_left_out": left_out,
        "ways": {way: measure(errors[way]) for way in ways if errors[way]},
    }
    print(json.dumps(result, indent=2))
    if options.json is not None:
        options.json.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
