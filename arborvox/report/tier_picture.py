"""A picture of a recording and the tiers of its file, as ELAN and Praat show them."""

from pathlib import Path
from typing import Any

import numpy as np

from arborvox import audio
from arborvox.annotations import Tier, read_eaf, read_textgrid
from arborvox.console import say
from arborvox.decode.segments import cut_spans
from arborvox.errors import ArborvoxError
from arborvox.tree.pictures import new_figure, picture_format, save_figure

RATE = 16_000
LONGEST_S = 60.0  # more would be a gray bar
BINS = 1200  # across the waveform
ROW_INCHES, WAVE_INCHES, WIDTH_INCHES = 0.42, 1.1, 9.0
FILLS = ("#e8eef7", "#fdf1e0")


def draw_tiers(file: Path, recording: Path, start_s: float, end_s: float | None, out: Path) -> None:
    """Draw the waveform from one time to another, and below it each tier of an .eaf or TextGrid."""
    picture_format(out)
    tiers = (
        read_textgrid(file).tiers if file.suffix.lower() == ".textgrid" else read_eaf(file).tiers
    )
    length_s = audio.read_info(recording).duration_s
    end_s = min(length_s, start_s + LONGEST_S) if end_s is None else min(end_s, length_s)
    if not 0 <= start_s < end_s or end_s - start_s > LONGEST_S:
        raise ArborvoxError(
            f"From {start_s:g} to {end_s:g} s is no stretch of {recording}, which has "
            f"{length_s:.1f} s; a picture shows {LONGEST_S:g} s at most."
        )
    blocks = audio.stream(recording, RATE)
    (speech,) = cut_spans(blocks, RATE, [(start_s, end_s)])
    height = WAVE_INCHES + ROW_INCHES * len(tiers) + 0.4
    figure = new_figure(WIDTH_INCHES, height)
    axes = figure.subplots()
    wave_rows = WAVE_INCHES / ROW_INCHES
    edges = np.linspace(0, len(speech.samples), min(BINS, len(speech.samples)) + 1).astype(np.int64)
    lows = np.minimum.reduceat(speech.samples, edges[:-1])
    highs = np.maximum.reduceat(speech.samples, edges[:-1])
    scale = 0.45 * wave_rows / max(float(np.abs(speech.samples).max()), 1e-6)
    middle = len(tiers) + wave_rows / 2
    times = start_s + (edges[:-1] + edges[1:]) / 2 / RATE
    axes.fill_between(times, middle + lows * scale, middle + highs * scale, color="#4a5a6a", lw=0.3)
    for row, tier in enumerate(tiers):
        _draw_row(axes, tier, len(tiers) - 1 - row, (start_s, end_s), FILLS[row % len(FILLS)])
    axes.set_xlim(start_s, end_s)
    axes.set_ylim(0, len(tiers) + wave_rows)
    axes.set_yticks(
        [len(tiers) - 0.5 - row for row in range(len(tiers))], [tier.name for tier in tiers]
    )
    axes.tick_params(left=False, labelsize=8)
    axes.set_xlabel("seconds", fontsize=8, labelpad=1)
    for side in ("top", "left", "right"):
        axes.spines[side].set_visible(False)
    save_figure(figure, out)
    say(f"wrote {out}")


def _draw_row(axes: Any, tier: Tier, low: int, span_s: tuple[float, float], fill: str) -> None:
    axes.axhline(low, color="#c8ccd2", lw=0.6)
    for annotation in tier.annotations:
        begin, end = max(annotation.start_s, span_s[0]), min(annotation.end_s, span_s[1])
        if begin > end or (begin == end and not tier.is_point) or not annotation.value.strip():
            continue
        axes.vlines((begin, end), low + 0.1, low + 0.9, color="#8894a4", lw=0.8)
        axes.fill_between((begin, end), low + 0.1, low + 0.9, color=fill, lw=0)
        room = int((end - begin) / (span_s[1] - span_s[0]) * WIDTH_INCHES * 0.85 / 0.062)
        value = annotation.value if len(annotation.value) <= room else annotation.value[: room - 1]
        shown = value if value == annotation.value else f"{value.rstrip()}…"
        if room > 0:
            axes.text((begin + end) / 2, low + 0.5, shown, ha="center", va="center", fontsize=8)
