"""Which utterance to correct next: the one from which a model would learn most in its time.

Time is what a corrector gives, so every measure is a gain for each second of speech.
"""

import hashlib
import random
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence

from arborvox.config.choices import Proposal
from arborvox.project.items import Item

# What `Project.next_item` goes by: no way is taken for better than chance before
# benchmarks/correcting.py has shown it on a real corpus.
DEFAULT_PROPOSAL: Proposal = "random"

GRAM = 3  # letters in a row that count as one thing to learn
LEAST_S = 1.0  # a shorter piece costs as much time as this


def by_gain(candidates: Sequence[Item], done: Iterable[Item]) -> list[float]:
    """Rank by doubt, in what is new: unsure stretches, rare runs of letters, rarely heard voices.

    Errors to be expected are (1 - confidence) for each letter; each is worth less the more often
    its run of letters, and its speaker, has been corrected already.
    """
    grams: Counter[str] = Counter()
    spoken_s: defaultdict[str, float] = defaultdict(float)
    for item in done:
        grams.update(_grams(item.text))
        spoken_s[_voice(item)] += item.duration_s
    all_s = sum(spoken_s.values())
    gains = []
    for item in candidates:
        doubt = 1.0 if item.confidence is None else 1.0 - item.confidence
        found = _grams(item.text)
        novelty = sum((1.0 + grams[gram]) ** -0.5 for gram in found)
        share = spoken_s[_voice(item)] / all_s if all_s else 0.0
        gains.append((1.0 - 0.5 * share) * doubt * novelty / max(item.duration_s, LEAST_S))
    return gains


def by_confidence(candidates: Sequence[Item], done: Iterable[Item]) -> list[float]:
    """Rank by the model's doubt alone."""
    return [1.0 if item.confidence is None else 1.0 - item.confidence for item in candidates]


def by_length(candidates: Sequence[Item], done: Iterable[Item]) -> list[float]:
    """Rank by length, the longest first."""
    return [item.duration_s for item in candidates]


def by_lot(candidates: Sequence[Item], done: Iterable[Item], seed: int = 0) -> list[float]:
    """Draw by lot; an utterance's number never changes."""
    return [_lot(item.id, seed) for item in candidates]


PROPOSALS: dict[Proposal, Callable[[Sequence[Item], Iterable[Item]], list[float]]] = {
    "gain": by_gain,
    "confidence": by_confidence,
    "length": by_length,
    "random": by_lot,
}


def _grams(text: str) -> set[str]:
    padded = f" {text} "
    return {padded[place : place + GRAM] for place in range(max(1, len(padded) - GRAM + 1))}


def _voice(item: Item) -> str:
    return item.speaker or item.recording


def _lot(name: str, seed: int) -> float:
    mark = hashlib.blake2b(name.encode(), digest_size=8).digest()
    return random.Random(int.from_bytes(mark) ^ seed).random()
