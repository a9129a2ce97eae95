"""What every search returns."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Hypothesis:
    """A transcript that a search found, with how sure it is of each token, and when it was said."""

    tokens: tuple[int, ...]
    score: float  # what the search ranks by, a log-probability or a weighted sum of such
    confidences: tuple[float, ...]  # by token, 0..1
    frames: tuple[tuple[int, int], ...] = ()  # by token, first and past the last; () if unknown
    # By token, what is sure of it where it is not sure itself; () if nobody asked.
    unsure: tuple[str | None, ...] = ()

    def times_s(self, frame_s: float) -> list[tuple[float, float]]:
        """Return begin and end of each token in seconds, if they are known."""
        return [(round(begin * frame_s, 3), round(end * frame_s, 3)) for begin, end in self.frames]
