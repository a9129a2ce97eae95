"""Synthesised speech of which the end of every word is known: whole sentences, or word by word."""

import functools
import multiprocessing
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import soxr
from numpy.typing import NDArray

from arborvox.corpora.espeak import ESPEAK_RATE_HZ, Espeak, Voice
from arborvox.corpora.sentences import compose_sentences
from arborvox.corpora.synthetic import make_speakers

RATE = 16_000
GAP_S, PAUSE_S = 0.05, 0.9  # between words, and after a sentence
MARGIN_S = 0.04  # of silence kept around a word: a sharp edge would sound like a stop
AUDIBLE = 0.01
FAINT = 1e-4  # noise, as a share of full scale; espeak-ng itself is silent where it pauses
WORDS_A_SENTENCE = 5
SENTENCES = 6
NEW = 1000  # a seed that no corpus was composed with: other sentences, the voices of the demo
APART = 100  # seeds of one drawing and of the next
NAMES = {
    "es": "martes enero México Chile domingo octubre lunes Portugal Marruecos agosto Suecia "
    "viernes Noruega mayo Turquía Francia sábado abril Italia Perú",
    "it": "martedì gennaio Messico Cile domenica ottobre lunedì Portogallo Marocco agosto Svezia "
    "venerdì Norvegia maggio Turchia Francia sabato aprile Spagna Perù",
    "ro": "marți ianuarie Mexic Chile duminică octombrie luni Portugalia Maroc august Suedia "
    "vineri Norvegia mai Turcia Franța sâmbătă aprilie Italia Peru",
}
Piece = tuple[NDArray[np.float32], list[tuple[int, int]], float]  # its words, a pause behind it


@dataclass(frozen=True)
class Talk:
    """Samples, and when each word begins and ends in them, in seconds."""

    samples: NDArray[np.int16]
    spans_s: tuple[tuple[float, float], ...]


def make_talks(number: int, seed: int = 0) -> dict[str, list[Talk]]:
    """Let so many voices speak in each way, each of them its own words; by another seed, others."""
    # espeak-ng moves the working directory, so it gets a process.
    places = range(APART * seed, APART * seed + number)
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return {kind: pool.map(functools.partial(_talk, kind), places) for kind in KINDS}


def _sentences(place: int, language: str) -> Iterator[Piece]:
    """Speak new sentences with a voice of the demo; a word ends where the next begins."""
    voice = make_speakers(language, 2, seed=0)[place % 2].voice
    espeak = Espeak()
    for sentence in compose_sentences(language, SENTENCES, max_words=14, seed=NEW + place):
        speech = espeak.speak(sentence, voice, seed=1)
        samples = _resampled(speech.pcm)
        starts = [round(start * RATE / ESPEAK_RATE_HZ) for start in speech.word_starts]
        words = []
        for begin, behind in zip(starts, [*starts[1:], len(samples)], strict=True):
            if len(loud := _loud(samples[begin:behind])):  # before a comma it is silent earlier
                words.append((begin + int(loud[0]), begin + int(loud[-1]) + 1))
        last = words[-1][1] + round(MARGIN_S * RATE)
        yield samples[:last], words, PAUSE_S


def _names(place: int, language: str) -> Iterator[Piece]:
    """Speak names one after the other, with hardly a gap."""
    names = NAMES[language].split()
    order = np.random.default_rng(place).permutation(len(names))
    variant = f"{'fm'[place % 2]}{1 + place // APART % 4}"
    voice = Voice(language, variant, rate_wpm=150, pitch=50, pitch_range=50)
    espeak = Espeak()
    for count, number in enumerate(order.tolist(), start=1):
        samples = _resampled(espeak.speak(names[number], voice, seed=1).pcm)
        loud, margin = _loud(samples), round(MARGIN_S * RATE)
        first = max(int(loud[0]) - margin, 0)
        word = (int(loud[0]) - first, int(loud[-1]) + 1 - first)
        pause_s = PAUSE_S if count % WORDS_A_SENTENCE == 0 else GAP_S
        yield samples[first : loud[-1] + 1 + margin], [word], pause_s


# As the demo's models have heard sentences, with a noise that they have not, and word by word.
KINDS: dict[str, tuple[Callable[[int, str], Iterator[Piece]], float]] = {
    "sentences": (_sentences, 0.0),
    "sentences in faint noise": (_sentences, FAINT),
    "words one by one, in faint noise": (_names, FAINT),
}


def _talk(kind: str, place: int) -> Talk:
    """Put pieces one behind the other."""
    say, noise = KINDS[kind]
    language = list(NAMES)[place % len(NAMES)]
    parts: list[NDArray[np.float32]] = [np.zeros(round(0.4 * RATE), np.float32)]
    spans, done = [], len(parts[0])
    for samples, words, pause_s in say(place, language):
        spans += [((done + begin) / RATE, (done + end) / RATE) for begin, end in words]
        parts += [samples, np.zeros(round(pause_s * RATE), np.float32)]
        done += len(parts[-2]) + len(parts[-1])
    hiss = np.random.default_rng(place).normal(scale=noise, size=done)
    joined = np.concatenate(parts) + hiss
    return Talk(np.round(np.clip(joined, -1, 1) * 32767).astype(np.int16), tuple(spans))


def _resampled(pcm: bytes) -> NDArray[np.float32]:
    spoken = np.frombuffer(pcm, "<i2").astype(np.float32) / 32768
    samples: NDArray[np.float32] = soxr.resample(spoken, ESPEAK_RATE_HZ, RATE)
    return samples


def _loud(samples: NDArray[np.float32]) -> NDArray[np.intp]:
    return np.flatnonzero(np.abs(samples) > AUDIBLE)
