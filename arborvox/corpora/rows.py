"""Utterances as a user's own source tells them, and what becomes of all of them alike."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from arborvox.audio import AudioInfo
from arborvox.config import OwnCorpus
from arborvox.console import say, warn
from arborvox.corpora.checks import check_recordings, count_units, decodes, length_problem
from arborvox.corpora.manifests import IGNORED_REASON, CorpusStats, Skipped
from arborvox.corpora.sampling import dense_ids, language_rng, split_by_speaker
from arborvox.corpora.tables import is_unicode, show_name
from arborvox.corpora.writing import write_corpus
from arborvox.manifest import Utterance
from arborvox.text import Normalizer
from arborvox.text.codes import check_languages

# Fewer speakers, or recordings, than this cannot be shared out over three sets.
FEWEST_GROUPS = 3


@dataclass(frozen=True, slots=True)
class Row:
    """One utterance as its source tells it, before text and audio are looked at."""

    id: str
    audio: Path
    text: str
    language: str
    shown: str  # how the list of left-out files names it
    speaker: str | None = None
    recording_id: str | None = None
    start_s: float = 0.0
    segment_s: float | None = None


def prepare_rows(
    rows: Iterable[Row], config: OwnCorpus, stage: Path, jobs: int, skipped: list[Skipped]
) -> CorpusStats:
    """Turn rows into manifests; what is no good goes to the list with what was left out before."""
    kept = list(rows)
    check_languages(dict.fromkeys(row.language for row in kept), str(config.source))
    if config.languages:
        kept = [row for row in kept if row.language in config.languages]
    kept = _normalise(kept, config, skipped)
    utterances = _check_audio(kept, config, jobs, skipped)
    codes = _split(utterances, config)
    stats = CorpusStats(config.kind, config.model_dump(mode="json"))
    write_corpus(stage, stats, utterances, codes, skipped)
    return stats


def keep_unique(rows: Iterable[Row], skipped: list[Skipped]) -> list[Row]:
    """Return the rows that a manifest can name, each name once."""
    unique: dict[str, Row] = {}
    for row in rows:
        if not is_unicode(str(row.audio)):
            # A manifest is JSON, and JSON is Unicode: there is no way to write such a name.
            reason = f"file name is not UTF-8: {show_name(str(row.audio))}"
            skipped.append(Skipped(show_name(row.shown), reason))
        elif row.id in unique:
            skipped.append(Skipped(row.shown, f"duplicate row: {row.id} came before"))
        else:
            unique[row.id] = row
    return list(unique.values())


def _normalise(rows: list[Row], config: OwnCorpus, skipped: list[Skipped]) -> list[Row]:
    """Normalise the texts (phones only have their spaces put right)."""
    normalizers: dict[str, Normalizer] = {}
    kept = []
    for row in rows:
        if " ".join(row.text.split()) in (config.ignore or ()):
            skipped.append(Skipped(row.shown, f"{IGNORED_REASON}: {row.text.strip()}"))
            continue
        if config.unit == "phones":
            text = " ".join(row.text.split())
            problem = "" if text else "no phones"
            if not text.replace(" ", "").isprintable():
                problem = "control character in the phones"
        else:
            if row.language not in normalizers:
                normalizers[row.language] = Normalizer(
                    row.language,
                    digits=config.digits,
                    foreign=config.foreign,
                    harakat=config.harakat,
                )
            text, problem = normalizers[row.language](row.text)
        if problem:
            skipped.append(Skipped(row.shown, problem))
        else:
            kept.append(replace(row, text=text))
    return kept


def _check_audio(
    rows: list[Row], config: OwnCorpus, jobs: int, skipped: list[Skipped]
) -> list[Utterance]:
    """Look at each recording once, however many utterances are cut from it."""
    paths = list(dict.fromkeys(row.audio for row in rows))
    segmented = any(row.segment_s is not None for row in rows)
    results = check_recordings(
        paths, config, decode=decodes(config, len(paths)), jobs=jobs, bounded=not segmented
    )
    of_path = dict(zip(paths, results, strict=True))
    utterances = []
    for row in rows:
        info = of_path[row.audio]
        problem = info if isinstance(info, str) else _row_problem(row, info, config)
        if problem or isinstance(info, str):
            skipped.append(Skipped(row.shown, problem))
            continue
        utterances.append(
            Utterance(
                id=row.id,
                audio=str(row.audio),
                language=row.language,
                text=row.text,
                sampling_rate=info.sampling_rate,
                num_samples=info.num_samples,
                num_channels=info.num_channels,
                speaker=row.speaker,
                recording_id=row.recording_id,
                start_s=row.start_s,
                segment_s=row.segment_s,
            )
        )
    return utterances


def _row_problem(row: Row, info: AudioInfo, config: OwnCorpus) -> str:
    """Say what is wrong with a recording, or a stretch of one, and its text, or nothing."""
    duration_s = info.duration_s if row.segment_s is None else row.segment_s
    if row.segment_s is not None:
        end_s = row.start_s + row.segment_s
        if end_s > info.duration_s + 0.01:
            return f"segment beyond the end: {end_s:.2f} s of {info.duration_s:.2f} s"
        if row.segment_s > config.max_duration_s:
            return f"too long: {row.segment_s:.1f} s"
        if row.segment_s < config.min_duration_s:
            return f"too short: {row.segment_s:.2f} s"
    return length_problem(count_units(row.text, config), duration_s, config)


def _split(utterances: list[Utterance], config: OwnCorpus) -> npt.NDArray[np.int64]:
    """Split each language by speakers or recordings where it has enough, else by sentences."""
    codes = np.zeros(len(utterances), dtype=np.int64)
    by_sentence = []
    for language in sorted({utterance.language for utterance in utterances}):
        rows = [i for i, utterance in enumerate(utterances) if utterance.language == language]
        texts = _number([utterances[i].text for i in rows])
        named = [_group_of(utterances[i], config) for i in rows]
        known = len(set(named)) >= FEWEST_GROUPS and None not in named
        if config.split != "paper" and not known:
            by_sentence.append(language)
        if config.split != "paper" and known:
            groups = _number([name or "" for name in named])
        else:
            groups = texts  # each sentence its own group: no sentence on two sides
        codes[rows] = split_by_speaker(groups, texts, language_rng(config.seed, language))
    if by_sentence:
        warn(
            f"{', '.join(by_sentence)}: fewer than {FEWEST_GROUPS} known {config.split}s, so the "
            "split is by sentence and the test set has voices that were trained on."
        )
    elif config.split != "paper" and utterances:
        say(f"split by {config.split}: no {config.split} and no sentence is on two sides")
    return codes


def _group_of(utterance: Utterance, config: OwnCorpus) -> str | None:
    """Return what has to stay on one side together."""
    return utterance.speaker if config.split == "speaker" else utterance.audio


def _number(keys: list[str]) -> npt.NDArray[np.int64]:
    numbers: dict[str, int] = {}
    return dense_ids(np.array([numbers.setdefault(key, len(numbers)) for key in keys], np.int64))
