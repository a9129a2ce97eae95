"""Mozilla Common Voice: `<lang>/validated.tsv` and `<lang>/clips/`, millions of rows a language.

Each language is read twice as a stream, so that memory holds a few numbers a row and no text:
first to judge every row (`scan_language`), then, when the splits are drawn and the languages are
weighed against each other, to write the rows that stay (`write_language`).
"""

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from arborvox.config import CommonVoiceCorpus, ReleaseCorpus
from arborvox.console import detail, warn
from arborvox.corpora.checks import leave_unnameable
from arborvox.corpora.common_voice_audio import check_clips
from arborvox.corpora.common_voice_rows import (
    NOT_SAMPLED,
    LanguageScan,
    scan_language,
    write_language,
)
from arborvox.corpora.manifests import SKIPPED_NAME, CorpusStats, SplitStats
from arborvox.corpora.sampling import (
    DEV,
    DEV_MOST,
    SENTENCE_ELSEWHERE,
    SPEAKER_ELSEWHERE,
    TEST,
    TRAIN,
    Quota,
    cut_from_training,
    dense_ids,
    downsampling_ratios,
    language_rng,
    sample_hours,
    split_by_speaker,
    split_randomly,
)
from arborvox.errors import ArborvoxError
from arborvox.files import path_below
from arborvox.manifest import SPLIT_NAMES, split_file
from arborvox.pooling import run_many
from arborvox.text.codes import check_languages, file_stem, is_language

# Below this many bytes of tables, starting worker processes costs more than it saves.
SMALL_TABLES = 8_000_000


@dataclass(frozen=True)
class LanguageFolder:
    """One language of a release."""

    language: str
    folder: Path


def prepare_common_voice(config: ReleaseCorpus, stage: Path, jobs: int) -> CorpusStats:
    """Turn a release into manifests by the paper's rule; write them into the staging folder."""
    assert config.source is not None  # `prepare` asks for it
    named = config.language if isinstance(config, CommonVoiceCorpus) else None
    folders = find_languages(Path(config.source), config.languages, named)
    work = stage / "scan"
    work.mkdir()
    sizes = [(item.folder / "validated.tsv").stat().st_size for item in folders]
    processes = 1 if sum(sizes) < SMALL_TABLES else min(jobs, len(folders))

    tasks = [(item.language, item.folder, work, config) for item in folders]
    scans = run_many("reading", "languages", scan_language, tasks, processes, sizes)
    check_clips(scans, config, jobs)
    for scan in scans:
        usable = int(np.sum(scan.fates == TRAIN))
        source = scan.durations_from
        detail(
            f"{scan.language}: {usable:,} of {len(scan.fates):,} rows usable, durations: {source}"
        )
        _draw_splits(scan, config)
    ratios = _downsample(scans, config)
    parts = run_many(
        "writing", "languages", write_language, [(scan, work) for scan in scans], processes, sizes
    )

    stats = CorpusStats("common-voice", config.model_dump(mode="json"))
    for scan, part in zip(scans, parts, strict=True):
        stats.languages[scan.language] = _language_stats(scan)
        stats.skipped = dict(Counter(stats.skipped) + Counter(part))
    stats.notes["downsampling"] = ratios
    stats.note_look_alikes(
        {scan.language: scan.look_alikes for scan in scans}, unified=config.look_alikes == "unify"
    )
    stats.notes["durations"] = {scan.language: scan.durations_from for scan in scans}
    stems = [file_stem(scan.language) for scan in scans]
    for split in SPLIT_NAMES:
        parts_of_split = [path_below(work, f"{stem}.{split}") for stem in stems]
        _join(parts_of_split, stage / split_file(split), b"")
    left_out = [path_below(work, f"{stem}.skipped") for stem in stems]
    _join(left_out, stage / SKIPPED_NAME, b"file\treason\n")
    for file in work.iterdir():
        file.unlink()
    work.rmdir()
    return stats


def find_languages(
    source: Path, wanted: tuple[str, ...] | None, named: str | None = None
) -> list[LanguageFolder]:
    """Find the language folders of a release root, of its parent, or the one that is given.

    `named` is the language of that one, where its folder has another name.
    """
    if not source.is_dir():
        raise ArborvoxError(f"There is no folder {source}.")
    source = source.resolve()
    if (source / "validated.tsv").is_file():
        if named is None and not is_language(source.name):
            raise ArborvoxError(
                f"{source} is the folder of one language, but {source.name!a} is no language code; "
                "say whose it is: --language sah, or corpus.language in a recipe."
            )
        found = {named or source.name: source}
    elif named is not None:
        raise ArborvoxError(
            f"{source} has no validated.tsv of its own; corpus.language is for one language folder."
        )
    else:
        tables = [*source.glob("*/validated.tsv"), *source.glob("*/*/validated.tsv")]
        found = {}
        for table in sorted(tables):
            if table.parent.name in found:
                raise ArborvoxError(
                    f"{source} holds {table.parent.name} twice ({found[table.parent.name]} and "
                    f"{table.parent}): name one release."
                )
            found[table.parent.name] = table.parent
    found = leave_unnameable(found)
    if not found:
        raise ArborvoxError(
            f"{source} is no Common Voice release: no language folder in it has a validated.tsv."
        )
    missing = sorted(set(wanted or ()) - set(found))
    if missing:
        raise ArborvoxError(
            f"{source} has no {', '.join(missing)}; it has {', '.join(sorted(found))}."
        )
    chosen = sorted(set(wanted or found))
    check_languages(chosen, str(source))
    return [LanguageFolder(code, found[code]) for code in chosen]


def _draw_splits(scan: LanguageScan, config: ReleaseCorpus) -> None:
    """Give every usable row of a language its split."""
    if config.split == "official":
        if scan.official is None:
            raise ArborvoxError(
                f"{scan.folder} has no train.tsv, dev.tsv and test.tsv: use another --split."
            )
        usable = scan.fates == TRAIN
        scan.fates[usable] = scan.official[usable]
        return
    usable_rows = np.flatnonzero(scan.fates == TRAIN)
    rng = language_rng(config.seed, scan.language)
    dev = Quota(config.dev_share, DEV_MOST)
    if config.split == "utterance":
        scan.fates[usable_rows] = split_randomly(len(usable_rows), rng, dev=dev)
        return
    if config.split == "official-test":
        _draw_around_test(scan, rng, dev)
        return
    speakers = dense_ids(scan.speakers[usable_rows])
    codes = split_by_speaker(speakers, dense_ids(scan.sentences[usable_rows]), rng, dev=dev)
    scan.fates[usable_rows] = codes
    if len(usable_rows) and not (codes == TEST).any():
        warn(
            f"{scan.language}: too few speakers ({speakers.max() + 1}) or clips "
            f"({len(usable_rows)}) for a test set of other speakers; all of it is for training. "
            "--split utterance draws utterances instead."
        )
    lost = float(np.mean(codes == SENTENCE_ELSEWHERE)) if len(codes) else 0.0
    if lost > 0.2:
        warn(
            f"{scan.language}: {lost:.0%} of the clips are left out because other speakers read "
            "the same sentences in test or dev; --split utterance keeps them."
        )


def _draw_around_test(scan: LanguageScan, rng: np.random.Generator, dev: Quota) -> None:
    """Take the release's own test set; what is unlike it is for training, and for development."""
    if scan.official is None:
        raise ArborvoxError(f"{scan.folder} has no test.tsv: use another --split.")
    usable, tested = scan.fates == TRAIN, scan.official == TEST
    heard = np.isin(scan.speakers, scan.speakers[tested])
    read = np.isin(scan.sentences, scan.sentences[tested])
    scan.fates[usable & read] = SENTENCE_ELSEWHERE
    scan.fates[usable & heard] = SPEAKER_ELSEWHERE
    scan.fates[usable & tested] = TEST
    rest = np.flatnonzero(scan.fates == TRAIN)
    sentences = dense_ids(scan.sentences[rest])
    # By sentence: by speaker, few voices would be left, and all that others read of theirs lost.
    scan.fates[rest] = cut_from_training(sentences, sentences, rng, dev, DEV)


def _downsample(scans: list[LanguageScan], config: ReleaseCorpus) -> dict[str, Any]:
    """Thin out the training rows by the paper's rule; return what was done."""
    pools_s = [float(scan.durations_s[scan.fates == TRAIN].sum()) for scan in scans]
    total_s = sum(pools_s)
    ratio = config.ratio
    if config.hours is not None and total_s:
        if config.hours * 3600 > total_s:
            warn(
                f"{config.hours:g} h were asked for, but there are {total_s / 3600:.2f} h for "
                "training: all of them are taken."
            )
        ratio = min(config.hours * 3600 / total_s, 1.0)
    if ratio is None or ratio >= 1.0:
        return {"ratio": 1.0, "languages": {scan.language: 1.0 for scan in scans}}
    ratios = downsampling_ratios(pools_s, ratio, config.alpha)
    for scan, pool_s, keep in zip(scans, pools_s, ratios, strict=True):
        rows = np.flatnonzero(scan.fates == TRAIN)
        # A stream of its own: the splits above stay the same whatever the ratio.
        rng = language_rng(config.seed + 1, f"{scan.language}/training")
        chosen = sample_hours(scan.durations_s[rows].astype(np.float64), pool_s * keep, rng)
        scan.fates[rows[~chosen]] = NOT_SAMPLED
    kept = {scan.language: float(keep) for scan, keep in zip(scans, ratios, strict=True)}
    return {"ratio": ratio, "alpha": config.alpha, "languages": kept}


def _language_stats(scan: LanguageScan) -> dict[str, SplitStats]:
    """Count a language's utterances, hours and speakers in each split."""
    stats = {}
    for code, split in ((TRAIN, "train"), (DEV, "dev"), (TEST, "test")):
        rows = scan.fates == code
        hours = float(scan.durations_s[rows].sum(dtype=np.float64)) / 3600
        speakers = len(np.unique(scan.speakers[rows]))
        stats[split] = SplitStats(int(rows.sum()), round(hours, 6), speakers)
    return stats


def _join(parts: list[Path], path: Path, header: bytes) -> None:
    """Write the languages' parts one after the other (gzip files may be joined as they are)."""
    with path.open("wb") as whole:
        whole.write(header)
        for part in parts:
            with part.open("rb") as file:
                while block := file.read(1 << 20):
                    whole.write(block)
