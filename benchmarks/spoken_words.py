"""Synthesised speech of which the end of every word is known: spoken word by word."""

import multiprocessing
from dataclasses import dataclass

import numpy as np
import soxr
from numpy.typing import NDArray

from arborvox.corpora.espeak import ESPEAK_RATE_HZ, Espeak, Voice

RATE = 16_000
GAP_S, PAUSE_S = 0.05, 0.9  # between words, and after a sentence
MARGIN_S = 0.04  # of silence kept around a word: a sharp edge would sound like a stop
AUDIBLE = 0.01
WORDS_A_SENTENCE = 5
NAMES = {
    "es": "martes enero México Chile domingo octubre lunes Portugal Marruecos agosto Suecia "
    "viernes Noruega mayo Turquía Francia sábado abril Italia Perú",
    "it": "martedì gennaio Messico Cile domenica ottobre lunedì Portogallo Marocco agosto Svezia "
    "venerdì Norvegia maggio Turchia Francia sabato aprile Spagna Perù",
    "ro": "marți ianuarie Mexic Chile duminică octombrie luni Portugalia Maroc august Suedia "
    "vineri Norvegia mai Turcia Franța sâmbătă aprilie Italia Peru",
}


@dataclass(frozen=True)
class Talk:
    """Samples, and when each word begins and ends in them, in seconds."""

    samples: NDArray[np.int16]
    spans_s: tuple[tuple[float, float], ...]


def make_talks(number: int) -> list[Talk]:
    """Let so many voices say the names in turn, each in its own order."""
    # espeak-ng moves the working directory, so it gets a process.
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.map(_make_talk, range(number))


def _make_talk(place: int) -> Talk:
    language = list(NAMES)[place % len(NAMES)]
    words = NAMES[language].split()
    order = np.random.default_rng(place).permutation(len(words))
    voice = Voice(language, ("f1", "m1")[place % 2], rate_wpm=150, pitch=50, pitch_range=50)
    espeak = Espeak()
    pieces: list[NDArray[np.float32]] = [np.zeros(round(0.4 * RATE), np.float32)]
    spans, done = [], len(pieces[0])
    for count, number in enumerate(order.tolist(), start=1):
        word, begin, end = _trimmed(espeak.speak(words[number], voice, seed=1).pcm)
        spans.append(((done + begin) / RATE, (done + end) / RATE))
        gap_s = PAUSE_S if count % WORDS_A_SENTENCE == 0 else GAP_S
        gap = np.zeros(round(gap_s * RATE), np.float32)
        pieces += [word, gap]
        done += len(word) + len(gap)
    noise = np.random.default_rng(place).normal(scale=1e-4, size=done)
    samples = np.concatenate(pieces) + noise
    return Talk(np.round(np.clip(samples, -1, 1) * 32767).astype(np.int16), tuple(spans))


def _trimmed(pcm: bytes) -> tuple[NDArray[np.float32], int, int]:
    """Return a word with a little of the silence around it, and where it begins and ends."""
    spoken = np.frombuffer(pcm, "<i2").astype(np.float32) / 32768
    samples: NDArray[np.float32] = soxr.resample(spoken, ESPEAK_RATE_HZ, RATE)
    loud = np.flatnonzero(np.abs(samples) > AUDIBLE)
    first = max(loud[0] - round(MARGIN_S * RATE), 0)
    kept = samples[first : loud[-1] + 1 + round(MARGIN_S * RATE)]
    return kept, int(loud[0] - first), int(loud[-1] + 1 - first)
