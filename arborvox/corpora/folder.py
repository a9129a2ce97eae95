"""What people have: audio with .txt beside it, a CSV/TSV/JSONL table, or a Kaldi data folder."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from arborvox.audio import AudioInfo
from arborvox.config import FolderCorpus
from arborvox.console import say, warn
from arborvox.corpora.checks import check_recordings, count_units, decodes, length_problem
from arborvox.corpora.folder_sources import Row, read_rows
from arborvox.corpora.manifests import CorpusStats, Skipped
from arborvox.corpora.sampling import dense_ids, language_rng, split_by_speaker
from arborvox.corpora.writing import write_corpus
from arborvox.manifest import Utterance
from arborvox.text import Normalizer
from arborvox.text.codes import check_languages

# Fewer speakers than this cannot be shared out over three sets.
FEWEST_SPEAKERS = 3


def prepare_folder(config: FolderCorpus, stage: Path, jobs: int) -> CorpusStats:
    """Turn a folder or a table of recordings into manifests."""
    assert config.source is not None  # `prepare` asks for it
    skipped: list[Skipped] = []
    rows = read_rows(Path(config.source), config, skipped)
    check_languages(dict.fromkeys(row.language for row in rows), config.source)
    if config.languages:
        rows = [row for row in rows if row.language in config.languages]
    rows = _normalise(rows, config, skipped)
    utterances = _check_audio(rows, config, jobs, skipped)
    codes = _split(utterances, config)
    stats = CorpusStats("folder", config.model_dump(mode="json"))
    write_corpus(stage, stats, utterances, codes, skipped)
    return stats


def _normalise(rows: list[Row], config: FolderCorpus, skipped: list[Skipped]) -> list[Row]:
    """Normalise the texts (phones only have their spaces put right)."""
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
    rows: list[Row], config: FolderCorpus, jobs: int, skipped: list[Skipped]
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


def _row_problem(row: Row, info: AudioInfo, config: FolderCorpus) -> str:
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


def _split(utterances: list[Utterance], config: FolderCorpus) -> npt.NDArray[np.int64]:
    """Split each language by speakers where it has enough of them, else by sentences."""
    codes = np.zeros(len(utterances), dtype=np.int64)
    by_sentence = []
    for language in sorted({utterance.language for utterance in utterances}):
        rows = [i for i, utterance in enumerate(utterances) if utterance.language == language]
        texts = _number([utterances[i].text for i in rows])
        speakers = [utterances[i].speaker for i in rows]
        known = len(set(speakers)) >= FEWEST_SPEAKERS and None not in speakers
        if config.split == "speaker" and not known:
            by_sentence.append(language)
        if config.split == "speaker" and known:
            groups = _number([speaker or "" for speaker in speakers])
        else:
            groups = texts  # each sentence its own group: no sentence on two sides
        codes[rows] = split_by_speaker(groups, texts, language_rng(config.seed, language))
    if by_sentence:
        warn(
            f"{', '.join(by_sentence)}: fewer than {FEWEST_SPEAKERS} known speakers, so the split "
            "is by sentence and the test set has voices that were trained on."
        )
    elif config.split == "speaker" and utterances:
        say("split by speaker: no speaker and no sentence is on two sides")
    return codes


def _number(keys: list[str]) -> npt.NDArray[np.int64]:
    numbers: dict[str, int] = {}
    return dense_ids(np.array([numbers.setdefault(key, len(numbers)) for key in keys], np.int64))
