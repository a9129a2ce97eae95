"""Corpora: a folder in, manifests out. One file a kind of corpus."""

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from arborvox.config import CorpusConfig
from arborvox.config.choices import CorpusKind
from arborvox.console import warn
from arborvox.corpora.checks import check_codes
from arborvox.corpora.common_voice import prepare_common_voice
from arborvox.corpora.elan import prepare_elan
from arborvox.corpora.folder import prepare_folder
from arborvox.corpora.held_out import empty_sets
from arborvox.corpora.manifests import (
    BY_DESIGN,
    SKIPPED_NAME,
    STATS_NAME,
    TABLE_NAME,
    CorpusStats,
    show_corpus,
    table_markdown,
)
from arborvox.corpora.more import add_training_cuts
from arborvox.corpora.praat import prepare_praat
from arborvox.corpora.shards import prepare_shards
from arborvox.corpora.spoken import prepare_synthetic
from arborvox.corpora.ucla import prepare_ucla, ucla_inventories
from arborvox.errors import ArborvoxError
from arborvox.files import atomic_path, staged_folder


@dataclass(frozen=True)
class CorpusReader:
    """What is done with one kind of corpus, given its own section of the recipe."""

    prepare: Callable[[Any, Path, int], CorpusStats]  # section, staging folder, processes
    # The files of units that the corpus itself has for its languages.
    inventories: Callable[[Any], dict[str, Path]] | None = None


PREPARERS: dict[CorpusKind, CorpusReader] = {
    "common-voice": CorpusReader(prepare_common_voice),
    "ucla": CorpusReader(prepare_ucla, inventories=ucla_inventories),
    "folder": CorpusReader(prepare_folder),
    "elan": CorpusReader(prepare_elan),
    "praat": CorpusReader(prepare_praat),
    "synthetic": CorpusReader(prepare_synthetic),
    "shards": CorpusReader(prepare_shards),
}


def find_inventories(config: CorpusConfig) -> dict[str, Path] | None:
    """Find the corpus's own files of units by language; None if its kind brings none along."""
    find = PREPARERS[config.kind].inventories
    return None if find is None else find(config)


def prepare(
    config: CorpusConfig, out: Path, *, jobs: int, strict: bool = False, is_part: bool = False
) -> CorpusStats:
    """Prepare a corpus into a folder: manifests, statistics and the list of what was left out.

    All files appear together at the end, or none. With `strict`, faulty input publishes only the
    list of faults and raises. Each corpus of `more` has a folder of its own in it; of such a part
    only the training set will be used.
    """
    check_codes(config)
    for key in config.needed:
        if not getattr(config, key):
            told = type(config).model_fields[key].description
            raise ArborvoxError(f"corpus.{key} is needed for the kind {config.kind}: {told}")
    if config.source is None:  # nothing is read from it, so it has to be spoken first
        config = config.model_copy(update={"source": str(out / "corpus")})
    more = []
    for number, part in enumerate(config.more, start=1):
        folder = out / f"more-{number}-{part.kind}"
        more.append((prepare(part, folder, jobs=jobs, strict=strict, is_part=True), folder))
    with staged_folder(out, seal=STATS_NAME) as stage:
        stats = PREPARERS[config.kind].prepare(config, stage, jobs)
        faults = sum(n for reason, n in stats.skipped.items() if reason not in BY_DESIGN)
        if strict and faults:
            _publish_list(stage, out)
            raise ArborvoxError(
                f"{faults:,} faulty inputs, listed in {out / SKIPPED_NAME}; --strict stops here, "
                "without it the rest would be prepared."
            )
        if not any(stats.utterances(split) for split in ("train", "dev", "test")):
            _publish_list(stage, out)
            raise ArborvoxError(
                f"{config.source} holds no usable utterance{_main_reason(stats)}; see "
                f"{out / SKIPPED_NAME}"
                f"{', and the choice of languages' if config.languages else ''}."
            )
        empty = [] if is_part else empty_sets(stats, config)
        if strict and empty:
            _publish_list(stage, out)
            raise ArborvoxError(" ".join(empty))
        for part_stats, folder in more:
            add_training_cuts(stage, stats, part_stats, folder)
        if not stats.utterances("train") and config.kind != "ucla":
            _publish_list(stage, out)
            raise ArborvoxError(
                f"{config.source}: the training set is empty; see {out / SKIPPED_NAME}. Add "
                "recordings, or draw utterances with --split utterance."
            )
        (stage / TABLE_NAME).write_text(table_markdown(stats), encoding="utf-8")
        (stage / STATS_NAME).write_text(stats.to_json(), encoding="utf-8")
    show_corpus(stats, out)
    for sentence in empty:
        warn(sentence)
    return stats


def _publish_list(stage: Path, out: Path) -> None:
    """Publish the list of what was left out, and nothing else."""
    with atomic_path(out / SKIPPED_NAME) as part:
        shutil.copyfile(stage / SKIPPED_NAME, part)


def _main_reason(stats: CorpusStats) -> str:
    """Say why most of a corpus was left out: "foreign script" is a wrong --language, say."""
    if not stats.skipped:
        return ""
    reason = max(stats.skipped, key=lambda reason: stats.skipped[reason])
    return f" ({stats.skipped[reason]:,} left out: {reason})"
