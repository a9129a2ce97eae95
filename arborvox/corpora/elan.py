"""Projects of ELAN: a folder of .eaf files, each with its recording beside it or below."""

from pathlib import Path, PurePosixPath, PureWindowsPath
from urllib.parse import unquote

from arborvox.annotations import EafDocument, Tier, read_eaf, spoken_spans
from arborvox.config.corpus import ElanCorpus
from arborvox.corpora.annotated import beside_of, find_files, is_audio, span_rows
from arborvox.corpora.manifests import CorpusStats, Skipped
from arborvox.corpora.own_rows import prepare_rows
from arborvox.corpora.rows import Row, inside, keep_unique, one_language
from arborvox.corpora.tables import clip, show_name
from arborvox.errors import ArborvoxError


def prepare_elan(config: ElanCorpus, stage: Path, jobs: int) -> CorpusStats:
    """Turn the annotations of some tiers into manifests."""
    assert config.source is not None  # `prepare` asks for it
    source = Path(config.source)
    if config.tier is None and config.tier_type is None:
        raise ArborvoxError("Name the tiers to learn from with --tier, or with --tier-type.")
    language = one_language(config, source)
    skipped: list[Skipped] = []
    rows: list[Row] = []
    seen: set[str] = set()
    for path, root in find_files(source, ".eaf"):
        shown = show_name(str(path.relative_to(root)))
        try:
            document = read_eaf(path)
        except (ArborvoxError, OSError) as error:
            skipped.append(Skipped(shown, f"not read: {error}"))
            continue
        skipped += [Skipped(shown, f"in the file: {problem}") for problem in document.problems]
        seen |= {tier.name for tier in document.tiers}
        tiers = [tier for tier in document.tiers if _is_wanted(tier, config)]
        if not tiers:
            skipped.append(Skipped(shown, "no such tier"))
            continue
        media = _find_media(document, path, root)
        if isinstance(media, str):
            skipped.append(Skipped(shown, media))
            continue
        spans = [(tier, span) for tier in tiers for span in spoken_spans(document, tier)]
        rows += span_rows(spans, path, root, media, language, skipped)
    if not rows and seen and "no such tier" in {each.reason for each in skipped}:
        named = ", ".join(sorted(map(clip, seen))[:20])
        raise ArborvoxError(f"{source}: no annotation on the tiers asked for; there are: {named}.")
    return prepare_rows(keep_unique(rows, skipped), config, stage, jobs, skipped)


def _is_wanted(tier: Tier, config: ElanCorpus) -> bool:
    """Whether a tier is asked for; `tx` is also `tx@Ana`, the tier of a speaker."""
    names = config.tier or ()
    by_name = tier.name in names or tier.name.partition("@")[0] in names
    return by_name or (config.tier_type is not None and tier.type_name == config.tier_type)


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
