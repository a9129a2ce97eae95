"""Projects of ELAN: a folder of .eaf files, each with its recording beside it or below."""

from pathlib import Path, PurePosixPath, PureWindowsPath
from urllib.parse import unquote

from arborvox.annotations import EafDocument, Tier, read_eaf, spoken_spans
from arborvox.config.corpus import ElanCorpus
from arborvox.corpora.annotated import (
    AnnotatedFile,
    beside_of,
    is_audio,
    is_named,
    prepare_annotated,
)
from arborvox.corpora.manifests import CorpusStats
from arborvox.corpora.rows import inside
from arborvox.corpora.tables import clip
from arborvox.errors import ArborvoxError


def prepare_elan(config: ElanCorpus, stage: Path, jobs: int) -> CorpusStats:
    """Turn the annotations of some tiers into manifests."""
    if config.tier is None and config.tier_type is None:
        raise ArborvoxError("Name the tiers to learn from with --tier, or with --tier-type.")

    def read(path: Path, root: Path) -> AnnotatedFile:
        document = read_eaf(path)
        tiers = [tier for tier in document.tiers if _is_wanted(tier, config)]
        return AnnotatedFile(
            names=[tier.name for tier in document.tiers],
            spans=[(tier, span) for tier in tiers for span in spoken_spans(document, tier)]
            if tiers
            else None,
            media=_find_media(document, path, root),
            problems=document.problems,
        )

    return prepare_annotated(config, stage, jobs, ".eaf", read)


def _is_wanted(tier: Tier, config: ElanCorpus) -> bool:
    by_type = config.tier_type is not None and tier.type_name == config.tier_type
    return by_type or is_named(tier, config.tier or ())


def _find_media(document: EafDocument, path: Path, root: Path) -> tuple[Path, float] | str:
    """Return the recording and where in it the times begin; or why there is none."""
    outside = ""
    for media in document.media:
        for url in filter(None, (media.relative_url, media.url)):
            for told in dict.fromkeys((unquote(url), url)):
                linked = inside(root, str(path.parent / told.removeprefix("./")))
                if linked is not None and is_audio(linked):
                    return linked, media.origin_s
            name = PureWindowsPath(PurePosixPath(unquote(url)).name).name
            beside = inside(root, str(path.parent / name)) if name else None
            if beside is not None and is_audio(beside):
                return beside, media.origin_s
            outside = outside or url
    found = beside_of(path)
    if found is not None:
        return found, document.media[0].origin_s if document.media else 0.0
    if outside:
        return f"no recording: {clip(outside)} is not in the folder, nor is one of the file's name"
    return "no recording: none is linked, and none has the file's name"
