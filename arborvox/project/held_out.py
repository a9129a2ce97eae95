"""Which utterances are kept for testing and developing: chosen once, before anybody corrects."""

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from arborvox.project.items import Split

TEST_SHARE = 0.15  # of the speech
MOST_TEST_S = 600.0
LEAST_TEST_S = 120.0  # recordings that come later fill up a smaller set
DEV_SHARE = 0.08


@dataclass(frozen=True)
class Piece:
    """An utterance that has no set yet."""

    recording: str
    speaker: str | None
    start_s: float
    end_s: float

    @property
    def lot(self) -> float:
        """A number from 0 to 1 that depends on the utterance alone."""
        told = f"{self.recording}\n{self.start_s:.3f}"
        return int.from_bytes(hashlib.blake2b(told.encode(), digest_size=6).digest()) / 2**48


def choose_sets(pieces: Sequence[Piece], known_s: float, test_s: float) -> list[Split]:
    """Return a set for each piece; `known_s` seconds are there already, `test_s` of them to test.

    A test set that is large enough stays what it is, however many recordings come. It is filled
    speaker by speaker in turns, of each speaker recording by recording, so that it is as various
    as the recordings are.
    """
    total_s = known_s + sum(piece.end_s - piece.start_s for piece in pieces)
    wanted_s = min(TEST_SHARE * total_s, MOST_TEST_S) if test_s < LEAST_TEST_S else 0.0
    held: set[Piece] = set()
    for piece in _in_turns(pieces):
        if test_s >= wanted_s:
            break
        held.add(piece)
        test_s += piece.end_s - piece.start_s
    return [
        "test" if piece in held else "dev" if piece.lot < DEV_SHARE else "train" for piece in pieces
    ]


def _in_turns(pieces: Iterable[Piece]) -> Iterable[Piece]:
    """Yield a piece of each speaker in turn, each time from the speaker's next recording."""
    speakers: dict[str, dict[str, list[Piece]]] = {}
    for piece in sorted(pieces, key=lambda piece: piece.lot):
        speakers.setdefault(piece.speaker or "", {}).setdefault(piece.recording, []).append(piece)
    queues = [_alternate(list(groups.values())) for _, groups in sorted(speakers.items())]
    return _alternate(queues)


def _alternate(groups: Sequence[Sequence[Piece]]) -> list[Piece]:
    longest = max(map(len, groups), default=0)
    return [group[turn] for turn in range(longest) for group in groups if turn < len(group)]
