"""Writes a corpus that fits in memory: split manifests, left-out files, statistics."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from arborvox.corpora.manifests import (
    NOT_KEPT_REASON,
    NOT_SAMPLED_REASON,
    RECORDING_REASON,
    SENTENCE_REASON,
    SKIPPED_NAME,
    SPEAKER_REASON,
    CorpusStats,
    Skipped,
    SplitStats,
    reason_kind,
    write_skipped,
)
from arborvox.corpora.sampling import (
    NOT_DRAWN,
    NOT_IN_KEPT_SPLIT,
    RECORDING_ELSEWHERE,
    SENTENCE_ELSEWHERE,
    SPEAKER_ELSEWHERE,
)
from arborvox.manifest import SPLIT_NAMES, Utterance, split_file, write_cuts

# Why an utterance that is good is in no split.
LEFT_OUT = {
    SENTENCE_ELSEWHERE: SENTENCE_REASON,
    SPEAKER_ELSEWHERE: SPEAKER_REASON,
    RECORDING_ELSEWHERE: RECORDING_REASON,
    NOT_IN_KEPT_SPLIT: NOT_KEPT_REASON,
    NOT_DRAWN: NOT_SAMPLED_REASON,
}


def write_corpus(
    stage: Path,
    stats: CorpusStats,
    utterances: Sequence[Utterance],
    codes: npt.NDArray[np.int64],
    skipped: list[Skipped],
) -> None:
    """Write the manifests and the list of what was left out; fill the statistics in."""
    pairs = list(zip(utterances, codes.tolist(), strict=True))
    skipped = skipped + [
        Skipped(utterance.audio, LEFT_OUT[code]) for utterance, code in pairs if code in LEFT_OUT
    ]
    for language in sorted({utterance.language for utterance in utterances}):
        stats.languages[language] = {split: SplitStats() for split in SPLIT_NAMES}
    speakers: dict[tuple[str, str], set[str]] = {}
    for code, split in enumerate(SPLIT_NAMES):
        chosen = [utterance for utterance, of in pairs if of == code]
        write_cuts(stage / split_file(split), chosen)
        for utterance in chosen:
            part = stats.languages[utterance.language][split]
            part.utterances += 1
            part.hours += utterance.duration_s / 3600
            heard = speakers.setdefault((utterance.language, split), set())
            if utterance.speaker:
                heard.add(utterance.speaker)
    for (language, split), heard in speakers.items():
        part = stats.languages[language][split]
        part.speakers, part.hours = len(heard), round(part.hours, 6)
    write_skipped(stage / SKIPPED_NAME, skipped)
    stats.skipped = dict(Counter(reason_kind(row.reason) for row in skipped))
