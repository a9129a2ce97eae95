"""Projects of ELAN: a folder of .eaf files, each with its recording beside it or below."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath, PureWindowsPath
from urllib.parse import unquote

import numpy as np

from arborvox.annotations import Annotation, EafDocument, Tier, read_eaf, spoken_spans
from arborvox.config.corpus import ElanCorpus
from arborvox.corpora.folder_sources import AUDIO_ENDINGS, inside
from arborvox.corpora.manifests import CorpusStats, Skipped
from arborvox.corpora.rows import Row, keep_unique, prepare_rows
from arborvox.corpora.tables import clip, show_name
from arborvox.errors import ArborvoxError

# An annotation is left out where others speak during more of it than this.
MOST_SHARED = 0.1


def prepare_elan(config: ElanCorpus, stage: Path, jobs: int) -> CorpusStats:
    """Turn the annotations of some tiers into manifests."""
    assert config.source is not None  # `prepare` asks for it
    source = Path(config.source)
    if config.tier is None and config.tier_type is None:
        raise ArborvoxError("Name the tiers to learn from with --tier, or with --tier-type.")
    if config.language is None:
        raise ArborvoxError(f"{source} does not say its language: give --language, such as sah.")
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
        rows += span_rows(spans, path, root, media, config.language, skipped)
    if not rows and seen and "no such tier" in {each.reason for each in skipped}:
        named = ", ".join(sorted(map(clip, seen))[:20])
        raise ArborvoxError(f"{source}: no annotation on the tiers asked for; there are: {named}.")
    return prepare_rows(keep_unique(rows, skipped), config, stage, jobs, skipped)


def find_files(source: Path, ending: str) -> Iterator[tuple[Path, Path]]:
    """Yield the files of a kind in a folder, or the one named, with the folder that bounds them."""
    if not source.exists():
        raise ArborvoxError(f"There is no file or folder {source}.")
    if source.is_file():
        yield source.resolve(), source.resolve().parent
        return
    root, found = source.resolve(), False
    for folder, folders, names in os.walk(root):  # does not follow links: no loops
        folders.sort()
        for name in sorted(names):
            # What begins with a dot, or ._ as macOS leaves it, is no document.
            if name.lower().endswith(ending) and not name.startswith("."):
                found = True
                yield Path(folder) / name, root
    if not found:
        raise ArborvoxError(f"{source} holds no file that ends in {ending}.")


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
                if linked is not None and _is_audio(linked):
                    return linked, media.origin_s
            name = PureWindowsPath(PurePosixPath(unquote(url)).name).name
            beside = inside(root, str(path.parent / name)) if name else None
            if beside is not None and _is_audio(beside):
                return beside, media.origin_s
            outside = outside or url
    found = beside_of(path)
    if found is not None:
        return found, document.media[0].origin_s if document.media else 0.0
    if outside:
        return f"no recording: {clip(outside)} is not in the folder, nor is one of the file's name"
    return "no recording: none is linked, and none has the file's name"


def beside_of(path: Path) -> Path | None:
    """Return the recording of the same name beside a file."""
    try:
        names = sorted(path.parent.iterdir())
    except OSError:
        return None
    return next((each for each in names if each.stem == path.stem and _is_audio(each)), None)


def _is_audio(path: Path) -> bool:
    try:
        return path.suffix.lower() in AUDIO_ENDINGS and path.is_file()
    except OSError:  # a name that is too long to be one
        return False


def span_rows(
    spans: Sequence[tuple[Tier, Annotation]],
    path: Path,
    root: Path,
    media: tuple[Path, float],
    language: str,
    skipped: list[Skipped],
) -> Iterator[Row]:
    """Yield an utterance for each annotation; those that nobody could learn from are listed."""
    audio, origin_s = media
    shown = show_name(str(path.relative_to(root)))
    name = show_name(str(path.relative_to(root).with_suffix("")))
    spoken = [(tier, span) for tier, span in spans if span.value.strip()]
    shared = _shared_s([span for _, span in spoken])
    shared_of = dict(zip(map(id, (span for _, span in spoken)), shared, strict=True))
    for tier, span in spans:
        length_s = span.end_s - span.start_s
        where = f"{shown}, {tier.name}, {span.start_s:.3f}-{span.end_s:.3f} s"
        if length_s <= 0:
            skipped.append(Skipped(where, "annotation of no length"))
        elif not span.value.strip():
            skipped.append(Skipped(where, "empty annotation"))
        elif shared_of[id(span)] > MOST_SHARED * length_s:
            reason = f"overlaps another annotation: {shared_of[id(span)]:.2f} of {length_s:.2f} s"
            skipped.append(Skipped(where, reason))
        else:
            begin_ms, end_ms = round(span.start_s * 1000), round(span.end_s * 1000)
            yield Row(
                id=f"{name}-{tier.name}-{begin_ms:08d}-{end_ms:08d}",
                audio=audio,
                text=span.value,
                language=language,
                shown=where,
                speaker=tier.participant or None,
                recording_id=name,
                start_s=span.start_s + origin_s,
                segment_s=length_s,
            )


def _shared_s(spans: Sequence[Annotation]) -> list[float]:
    """Return for how long each annotation shares its time with any other."""
    edges = np.unique([edge for span in spans for edge in (span.start_s, span.end_s)])
    first = np.searchsorted(edges, [span.start_s for span in spans])
    last = np.searchsorted(edges, [span.end_s for span in spans])
    depth = np.zeros(len(edges) + 1)
    np.add.at(depth, first, 1)
    np.add.at(depth, last, -1)
    is_shared = np.cumsum(depth)[: max(len(edges) - 1, 0)] > 1
    until = np.concatenate([[0.0], np.cumsum(np.diff(edges) * is_shared)])
    return [float(until[b] - until[a]) for a, b in zip(first, last, strict=True)]
