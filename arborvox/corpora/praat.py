"""Folders of Praat's TextGrids, each with the recording of its name beside it."""

from pathlib import Path

from arborvox.annotations import read_textgrid
from arborvox.config.corpus import PraatCorpus
from arborvox.corpora.annotated import beside_of, find_files, span_rows
from arborvox.corpora.manifests import CorpusStats, Skipped
from arborvox.corpora.own_rows import prepare_rows
from arborvox.corpora.rows import Row, keep_unique, one_language
from arborvox.corpora.tables import clip, show_name
from arborvox.errors import ArborvoxError


def prepare_praat(config: PraatCorpus, stage: Path, jobs: int) -> CorpusStats:
    """Turn the intervals of some tiers into manifests."""
    assert config.source is not None  # `prepare` asks for it
    source = Path(config.source)
    if config.tier is None:
        raise ArborvoxError("Name the tiers to learn from with --tier.")
    language = one_language(config, source)
    skipped: list[Skipped] = []
    rows: list[Row] = []
    seen: set[str] = set()
    for path, root in find_files(source, ".textgrid"):
        shown = show_name(str(path.relative_to(root)))
        try:
            grid = read_textgrid(path)
        except (ArborvoxError, OSError) as error:
            skipped.append(Skipped(shown, f"not read: {error}"))
            continue
        seen |= {tier.name for tier in grid.tiers}
        tiers = [tier for tier in grid.tiers if tier.name in config.tier and not tier.is_point]
        audio = beside_of(path)
        if not tiers:
            skipped.append(Skipped(shown, "no such tier"))
        elif audio is None:
            skipped.append(Skipped(shown, "no recording: none has the file's name"))
        else:
            # Between what is said Praat has empty intervals: they are no fault.
            spans = [(tier, a) for tier in tiers for a in tier.annotations if a.value.strip()]
            rows += span_rows(spans, path, root, (audio, 0.0), language, skipped)
    if not rows and seen and "no such tier" in {each.reason for each in skipped}:
        named = ", ".join(sorted(map(clip, seen))[:20])
        raise ArborvoxError(f"{source}: no interval on the tiers asked for; there are: {named}.")
    return prepare_rows(keep_unique(rows, skipped), config, stage, jobs, skipped)
