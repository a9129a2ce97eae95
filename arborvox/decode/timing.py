"""Where the time of decoding went, as the file beside the hypotheses tells it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from arborvox.typed_json import read_form

REMEDY = "delete it and the hypotheses beside it, and decode again"


@dataclass(frozen=True)
class RankTiming:
    """What one of several processes did, restarts included."""

    rank: int
    audio_s: float
    work_s: float  # in the stages of decoding
    elapsed_s: float  # from the first piece of work that it drew to the last


@dataclass(frozen=True)
class Timing:
    """Seconds of audio and of work, and how the work was done."""

    audio_s: float
    seconds: dict[str, float]  # by stage
    rtf: dict[str, float]  # the same, and in total, for a second of audio
    mode: str
    beam: int
    precision: str
    threads: int
    batch_s: float
    ranks: tuple[RankTiming, ...] = ()  # by process


def read_timing(path: Path) -> Timing:
    """Read what `arborvox decode` wrote beside its hypotheses."""
    return read_form(path, Timing, REMEDY)


def join_timings(facts: Sequence[Timing]) -> Timing:
    """Add up the times of parts of the work, of processes or of languages."""
    audio_s = sum(fact.audio_s for fact in facts)
    stages = dict.fromkeys(stage for fact in facts for stage in fact.seconds)
    seconds = {stage: sum(fact.seconds.get(stage, 0.0) for fact in facts) for stage in stages}
    by_rank: dict[int, RankTiming] = {}
    for own in (own for fact in facts for own in fact.ranks):
        known = by_rank.get(own.rank, RankTiming(own.rank, 0.0, 0.0, 0.0))
        by_rank[own.rank] = RankTiming(
            own.rank,
            known.audio_s + own.audio_s,
            known.work_s + own.work_s,
            known.elapsed_s + own.elapsed_s,
        )
    return replace(
        facts[0],
        audio_s=audio_s,
        seconds=seconds,
        rtf=real_time_factors(seconds, audio_s),
        ranks=tuple(by_rank[rank] for rank in sorted(by_rank)),
    )


def real_time_factors(seconds: dict[str, float], audio_s: float) -> dict[str, float]:
    """Return seconds of work for a second of audio, by stage and in total."""
    spent = {**seconds, "total": sum(seconds.values())}
    return {s: round(spent_s / audio_s, 6) if audio_s else 0.0 for s, spent_s in spent.items()}
