"""Folders of Praat's TextGrids, each with the recording of its name beside it."""

from pathlib import Path

from arborvox.annotations import read_textgrid
from arborvox.config.corpus import PraatCorpus
from arborvox.corpora.annotated import AnnotatedFile, beside_of, is_named, prepare_annotated
from arborvox.corpora.manifests import CorpusStats
from arborvox.errors import ArborvoxError


def prepare_praat(config: PraatCorpus, stage: Path, jobs: int) -> CorpusStats:
    """Turn the intervals of some tiers into manifests."""
    names = config.tier
    if names is None:
        raise ArborvoxError("Name the tiers to learn from with --tier.")

    def read(path: Path, root: Path) -> AnnotatedFile:
        grid = read_textgrid(path)
        tiers = [tier for tier in grid.tiers if is_named(tier, names) and not tier.is_point]
        audio = beside_of(path)
        # Between what is said Praat has empty intervals: they are no fault.
        spans = [(tier, a) for tier in tiers for a in tier.annotations if a.value.strip()]
        return AnnotatedFile(
            names=[tier.name for tier in grid.tiers],
            spans=spans if tiers else None,
            media="no recording: none has the file's name" if audio is None else (audio, 0.0),
        )

    return prepare_annotated(config, stage, jobs, ".textgrid", read)
