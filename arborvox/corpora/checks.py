"""How thoroughly recordings are looked at before they become part of a corpus."""

import os
from collections.abc import Sequence
from pathlib import Path

from arborvox.audio import AudioInfo, check_many
from arborvox.config import CorpusConfig
from arborvox.console import detail, progress, warn
from arborvox.corpora.tables import is_unicode
from arborvox.text.codes import check_languages

# Up to this many recordings are decoded whole (about 25 h, a few minutes); beyond, `auto` trusts
# headers. Of what they hide, computing the features later finds what is shorter than stated.
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


def leave_unnameable(folders: dict[str, Path]) -> dict[str, Path]:
    """Leave out, and say so, language folders whose path is not UTF-8: no manifest can hold it."""
    named = {name: folder for name, folder in folders.items() if is_unicode(str(folder))}
    for name in sorted(set(folders) - set(named)):
        shown = os.fsencode(folders[name]).decode("utf-8", "backslashreplace")
        warn(f"{shown} is left out: the folder's name is not UTF-8; rename it.")
    return named


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


def count_units(text: str, config: CorpusConfig) -> int:
    """Count what is to be recognized in a text: its characters, or its phones."""
    return len(text.split()) if config.unit == "phones" else len(text)


def length_problem(num_units: int, duration_s: float, config: CorpusConfig) -> str:
    """Say that a text is too long to have been spoken in so many seconds, or nothing.

    A page that stands beside a short clip by mistake would also cost minutes a training step.
    """
    if num_units <= config.max_units_per_s * duration_s:
        return ""
    what = "phones" if config.unit == "phones" else "characters"
    return f"text too long for its audio: {num_units:,} {what} in {duration_s:.1f} s"
