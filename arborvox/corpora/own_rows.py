"""What becomes of a user's own utterances, whatever they come in: checks, split, manifests."""

from dataclasses import replace
from pathlib import Path

from arborvox.audio import AudioInfo
from arborvox.config import FolderCorpus, OwnCorpus
from arborvox.console import say
from arborvox.corpora.checks import check_recordings, count_units, decodes, length_problem
from arborvox.corpora.kept_split import read_split, write_split
from arborvox.corpora.manifests import IGNORED_REASON, REPEATED_NAME, CorpusStats, Skipped
from arborvox.corpora.own_split import settle_given, split_utterances, thin_out
from arborvox.corpora.rows import Row
from arborvox.corpora.writing import write_corpus
from arborvox.manifest import Utterance
from arborvox.text import Normalizer
from arborvox.text.codes import check_languages
from arborvox.text.look_alikes import LetterCounter, LookAlikes


def prepare_rows(
    rows: list[Row], config: OwnCorpus, stage: Path, jobs: int, skipped: list[Skipped]
) -> CorpusStats:
    """Turn rows into manifests; what is no good goes to the list with what was left out before."""
    kept = None if config.keep_split is None else read_split(Path(config.keep_split))
    check_languages(dict.fromkeys(row.language for row in rows), config.source or "")
    if config.languages:
        rows = [row for row in rows if row.language in config.languages]
    if isinstance(config, FolderCorpus):  # no other kind has sets of its own
        rows = settle_given(rows, config, skipped)
    given = {row.id: row.given for row in rows if row.given is not None}
    rows = _leave_ignored(rows, config, skipped)
    look_alikes = _find_look_alikes(rows, config)
    if config.look_alikes == "unify":
        rows = [replace(row, text=look_alikes[row.language].unify(row.text)) for row in rows]
    rows = _normalize(rows, config, skipped)
    utterances = _check_audio(rows, config, jobs, skipped)
    codes = split_utterances(utterances, given, config, kept)
    if config.train_minutes is not None:
        codes = thin_out(codes, utterances, config.train_minutes, config.seed)
    stats = CorpusStats(config.kind, config.model_dump(mode="json"))
    write_corpus(stage, stats, utterances, codes, skipped)
    found = {language: letters.found for language, letters in look_alikes.items()}
    stats.note_look_alikes(found, unified=config.look_alikes == "unify")
    repeated = write_split(stage, utterances, codes)
    if repeated:
        counts = ", ".join(f"{count:,} of {split}" for split, count in sorted(repeated.items()))
        say(f"held-out utterances that repeat a sentence: {counts}; they are in {REPEATED_NAME}")
    stats.notes["repeated"] = repeated
    return stats


def _leave_ignored(rows: list[Row], config: OwnCorpus, skipped: list[Skipped]) -> list[Row]:
    """Leave out the rows whose whole text is one of those to ignore."""
    kept = []
    for row in rows:
        text = " ".join(row.text.split())
        if text in (config.ignore or ()):
            skipped.append(Skipped(row.shown, f"{IGNORED_REASON}: {text}"))
        else:
            kept.append(row)
    return kept


def _find_look_alikes(rows: list[Row], config: OwnCorpus) -> dict[str, LookAlikes]:
    """Find the letters of each language that look alike; signs of phones are not looked at."""
    counters = {row.language: LetterCounter() for row in rows}
    if config.unit == "text":
        for row in rows:
            counters[row.language].add(row.text)
    return {language: counter.find() for language, counter in counters.items()}


def _normalize(rows: list[Row], config: OwnCorpus, skipped: list[Skipped]) -> list[Row]:
    """Normalize the texts (phones only have their spaces put right)."""
    normalizers: dict[str, Normalizer] = {}
    kept = []
    for row in rows:
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
