"""Corpora in shards, a Lhotse Shar or plain WebDataset tars: read once, by all cores.

SOURCE/train/recording.000000.tar, SOURCE/dev/…, SOURCE/test/…; or SOURCE/000000.tar, for one set.
"""

from collections import Counter
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from arborvox.config import ShardsCorpus
from arborvox.console import warn
from arborvox.corpora.checks import count_units, length_problem
from arborvox.corpora.manifests import (
    SKIPPED_NAME,
    CorpusStats,
    Skipped,
    SplitStats,
    reason_kind,
    write_skipped,
)
from arborvox.errors import ArborvoxError
from arborvox.manifest import SPLIT_NAMES, Utterance, split_file, write_cuts
from arborvox.pooling import run_many
from arborvox.shards.addresses import is_far, join_address, list_folder
from arborvox.shards.tars import ShardFiles, find_shards, read_shard
from arborvox.text import Normalizer
from arborvox.text.codes import check_language


@dataclass
class ShardPart:
    """What one shard brings to a set."""

    problem: str
    stats: dict[str, SplitStats] = field(default_factory=dict)
    speakers: dict[str, set[str]] = field(default_factory=dict)
    skipped: list[Skipped] = field(default_factory=list)


def prepare_shards(config: ShardsCorpus, stage: Path, jobs: int) -> CorpusStats:
    """Turn shards into manifests that say where in them each recording lies."""
    assert config.source is not None  # `prepare` asks for it
    source = config.source if is_far(config.source) else str(Path(config.source).absolute())
    work = stage / "parts"
    work.mkdir()
    tasks = [
        (split, shard, work / f"{split}-{number:06d}", config)
        for split, shards in _find_sets(source, config).items()
        for number, shard in enumerate(shards)
    ]
    parts = run_many("reading", "shards", _read_part, tasks, jobs)
    stats = CorpusStats(config.kind, config.model_dump(mode="json"))
    skipped: list[Skipped] = []
    speakers: dict[tuple[str, str], set[str]] = {}
    for (split, _, _, _), part in zip(tasks, parts, strict=True):
        skipped += part.skipped
        if part.problem:
            warn(f"{part.problem}; what can be read of it is used.")
        for language, added in part.stats.items():
            known = stats.languages.setdefault(
                language, {name: SplitStats() for name in SPLIT_NAMES}
            )
            known[split].utterances += added.utterances
            known[split].hours += added.hours
            heard = speakers.setdefault((language, split), set())
            heard |= part.speakers.get(language, set())
    for (language, split), heard in speakers.items():
        stats.languages[language][split].speakers = len(heard)
    for split in SPLIT_NAMES:
        with (stage / split_file(split)).open("wb") as whole:  # gzip files may be joined
            for path in sorted(work.glob(f"{split}-*")):
                whole.write(path.read_bytes())
    for path in work.iterdir():
        path.unlink()
    work.rmdir()
    write_skipped(stage / SKIPPED_NAME, skipped)
    stats.skipped = dict(Counter(reason_kind(row.reason) for row in skipped))
    stats.notes["shards"] = {
        "read": len(parts),
        "broken": [part.problem for part in parts if part.problem],
    }
    return stats


def _find_sets(source: str, config: ShardsCorpus) -> dict[str, list[ShardFiles]]:
    """Find the shards of each set: in folders of its name, or all for one set."""
    names = set(list_folder(source))
    folders = {split: join_address(source, split) for split in SPLIT_NAMES if split in names}
    sets = {split: find_shards(folder) for split, folder in folders.items()}
    sets = {split: shards for split, shards in sets.items() if shards}
    if not sets:
        found = find_shards(source)
        sets = {config.only_set: found} if found else {}
    if not sets:
        raise ArborvoxError(
            f"{source} holds no shards: neither cuts.000000.jsonl.gz and recording.000000.tar nor "
            "other .tar files, there or in train/, dev/ and test/."
        )
    return {
        split: [replace(shard, name=f"{split}/{shard.name}") for shard in shards]
        for split, shards in sets.items()
    }


def _read_part(split: str, shard: ShardFiles, target: Path, config: ShardsCorpus) -> ShardPart:
    """Read one shard and write its part of a set's manifest."""
    report = read_shard(shard, config.language, decode=config.check == "decode")
    part = ShardPart(report.problem)
    part.skipped = [Skipped(f"{shard.name}, {item}", reason) for item, reason in report.skipped]
    normalizers: dict[str, Normalizer] = {}
    kept: list[Utterance] = []
    for utterance in report.utterances:
        if config.languages and utterance.language not in config.languages:
            continue
        text, problem = _judge(utterance, config, normalizers)
        if problem:
            part.skipped.append(Skipped(f"{shard.name}, {utterance.id}", problem))
            continue
        kept.append(replace(utterance, text=text))
        stats = part.stats.setdefault(utterance.language, SplitStats())
        stats.utterances += 1
        stats.hours += utterance.duration_s / 3600
        if utterance.speaker:
            part.speakers.setdefault(utterance.language, set()).add(utterance.speaker)
    if kept:
        write_cuts(target, kept)
    return part


def _judge(
    utterance: Utterance, config: ShardsCorpus, normalizers: dict[str, Normalizer]
) -> tuple[str, str]:
    """Return an utterance's text as it is learned, and what is wrong, if anything."""
    duration_s = utterance.duration_s
    if duration_s > config.max_duration_s:
        return "", f"too long: {duration_s:.1f} s"
    if duration_s < config.min_duration_s:
        return "", f"too short: {duration_s:.2f} s"
    if config.unit == "phones":
        text = " ".join(utterance.text.split())
        problem = "" if text else "no phones"
    else:
        language = utterance.language
        if language not in normalizers:
            check_language(language, f"{utterance.audio}")
            make = partial(Normalizer, digits=config.digits, foreign=config.foreign)
            normalizers[language] = make(language, harakat=config.harakat)
        text, problem = normalizers[language](utterance.text)
    return text, problem or length_problem(count_units(text, config), duration_s, config)
