"""What people have: audio with .txt beside it, a CSV/TSV/JSONL table, or a Kaldi data folder."""

from pathlib import Path

from arborvox.config import FolderCorpus
from arborvox.corpora.folder_sources import read_rows
from arborvox.corpora.manifests import CorpusStats, Skipped
from arborvox.corpora.own_rows import prepare_rows


def prepare_folder(config: FolderCorpus, stage: Path, jobs: int) -> CorpusStats:
    """Turn a folder or a table of recordings into manifests."""
    assert config.source is not None  # `prepare` asks for it
    skipped: list[Skipped] = []
    rows = read_rows(Path(config.source), config, skipped)
    return prepare_rows(rows, config, stage, jobs, skipped)
