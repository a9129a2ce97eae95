"""How long after its end a spoken word is shown, by what was shown and when."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from spoken_words import Talk

MEASURES = {
    "letters_s": "the text is as long",
    "first_s": "the text first has the word",
    "stays_s": "the word is there and stays",
}
Shown = tuple[float, str]  # when, and which text


@dataclass(frozen=True)
class Word:
    """A word of a finished text, and when it was said."""

    text: str
    start_s: float
    end_s: float


@dataclass
class Delays:
    """Of each spoken word that the finished text has, how long after its end it was shown."""

    letters_s: list[float] = field(default_factory=list)  # as many letters as it takes
    first_s: list[float] = field(default_factory=list)  # the word as it is in the finished text
    stays_s: list[float] = field(default_factory=list)  # and it is in all that follows

    def __add__(self, other: "Delays") -> "Delays":
        return Delays(*(getattr(self, name) + getattr(other, name) for name in MEASURES))


def note_delays(talk: Talk, words: Sequence[Word], shown: Sequence[Shown]) -> Delays:
    """Measure one finished segment: its words with their times, and the texts shown until then.

    The last text shown is the finished one. A word that was heard as two counts once, when both
    are there; two that were heard as one count once, from the end of the second.
    """
    finished = [word.text for word in words]
    lengths = np.cumsum([len(word) for word in finished])
    num_letters = [len(text.replace(" ", "")) for _, text in shown]
    there = [found_words(text.split(), finished) for _, text in shown]
    delays = Delays()
    for spoken, places in _spoken_words(talk, words).items():
        end_s = talk.spans_s[spoken][1]
        has = [all(place in found for place in places) for found in there]
        reached = next(n for n, count in enumerate(num_letters) if count >= lengths[places[-1]])
        last_lack = max((n for n, is_there in enumerate(has) if not is_there), default=-1)
        delays.letters_s.append(shown[reached][0] - end_s)
        delays.first_s.append(shown[has.index(True)][0] - end_s)
        delays.stays_s.append(shown[last_lack + 1][0] - end_s)
    return delays


def _spoken_words(talk: Talk, words: Sequence[Word]) -> dict[int, list[int]]:
    """Tell for spoken words which places of the finished text they end with."""
    places: dict[int, list[int]] = {}
    for place, word in enumerate(words):
        covered = [
            number
            for number, (begin_s, end_s) in enumerate(talk.spans_s)
            if min(end_s, word.end_s) - max(begin_s, word.start_s)
            > 0.5 * min(end_s - begin_s, word.end_s - word.start_s)
        ]
        if covered:
            places.setdefault(covered[-1], []).append(place)
    return places


def found_words(partial: Sequence[str], finished: Sequence[str]) -> set[int]:
    """Return the places of a finished text whose words a text on the way has, in their order.

    The two are aligned with the fewest edits; what of the finished text is still to come is free.
    """
    rows, columns = len(partial) + 1, len(finished) + 1
    cost = np.zeros((rows, columns), np.int64)
    cost[:, 0], cost[0] = np.arange(rows), np.arange(columns)
    for i in range(1, rows):
        for j in range(1, columns):
            differs = int(partial[i - 1] != finished[j - 1])
            ways = (cost[i - 1, j - 1] + differs, cost[i - 1, j] + 1, cost[i, j - 1] + 1)
            cost[i, j] = min(ways)
    i, j = rows - 1, int(cost[-1].argmin())
    found: set[int] = set()
    while i and j:
        differs = int(partial[i - 1] != finished[j - 1])
        if cost[i, j] == cost[i - 1, j - 1] + differs:
            i, j = i - 1, j - 1
            if not differs:
                found.add(j)
        elif cost[i, j] == cost[i - 1, j] + 1:
            i -= 1
        else:
            j -= 1
    return found
