"""How thoroughly recordings are looked at before they become part of a corpus."""

from collections.abc import Sequence
from pathlib import Path

from arborvox.audio import AudioInfo, check_many
from arborvox.config import CorpusConfig
from arborvox.console import detail, progress
from arborvox.text.codes import check_languages

# Up to this many recordings are decoded whole (about 25 h, a few minutes); beyond, `auto` trusts
# headers. What they hide is caught when the features are computed.
DECODE_MOST = 20_000


def check_codes(config: CorpusConfig) -> None:
    """Refuse languages that are none, before anything is looked for under their names."""
    for key in config.codes:
        named = getattr(config, key) or ()
        check_languages((named,) if isinstance(named, str) else named, f"corpus.{key}")
    for part in config.more:
        check_codes(part)


def decodes(config: CorpusConfig, num_recordings: int) -> bool:
    """Say whether recordings of a corpus of that size are decoded or only their headers read."""
    return config.check == "decode" or (config.check == "auto" and num_recordings <= DECODE_MOST)


def check_recordings(
    paths: Sequence[Path], config: CorpusConfig, *, decode: bool, jobs: int, bounded: bool = True
) -> list[AudioInfo | str]:
    """Return each recording's header, or why it cannot be used, in order and with progress.

    `bounded` holds recordings to the configured durations; long ones cut into segments are not.
    """
    found: list[AudioInfo | str] = []
    if not paths:
        return found
    verb = "decoding" if decode else "reading the headers of"
    detail(f"{verb} {len(paths):,} recordings in {jobs} processes")
    with progress(f"{verb} {len(paths):,} recordings", len(paths)) as advance:
        for result in check_many(
            paths,
            max_duration_s=config.max_duration_s if bounded else float("inf"),
            min_duration_s=config.min_duration_s,
            decode=decode,
            jobs=jobs,
        ):
            found.append(result)
            advance()
    return found
