"""What projects of annotation files share: the files, their recordings, and annotations as rows."""

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from arborvox.annotations import Annotation, Tier
from arborvox.config.corpus import TierCorpus
from arborvox.corpora.folder_sources import AUDIO_ENDINGS
from arborvox.corpora.manifests import CorpusStats, Skipped
from arborvox.corpora.own_rows import prepare_rows
from arborvox.corpora.rows import Row, keep_unique, one_language, speaker_of
from arborvox.corpora.tables import clip, show_name
from arborvox.errors import ArborvoxError

# An annotation is left out where others speak during more of it than this.
MOST_SHARED = 0.1
NO_TIER = "no such tier"


@dataclass(frozen=True)
class AnnotatedFile:
    """What a file has of what is asked for."""

    names: Sequence[str]  # of all its tiers
    spans: Sequence[tuple[Tier, Annotation]] | None  # on the tiers asked for; None: it has none
    media: tuple[Path, float] | str  # the recording and where in it times begin, or why not
    problems: Sequence[str] = ()


def prepare_annotated(
    config: TierCorpus,
    stage: Path,
    jobs: int,
    ending: str,
    read: Callable[[Path, Path], AnnotatedFile],
) -> CorpusStats:
    """Turn the annotations of some tiers into manifests; `read` takes a file and its root."""
    assert config.source is not None  # `prepare` asks for it
    source = Path(config.source)
    language = one_language(config, source)
    skipped: list[Skipped] = []
    rows: list[Row] = []
    seen: set[str] = set()
    for path, root in find_files(source, ending):
        shown = show_name(str(path.relative_to(root)))
        try:
            found = read(path, root)
        except (ArborvoxError, OSError) as error:
            skipped.append(Skipped(shown, f"not read: {error}"))
            continue
        skipped += [Skipped(shown, f"in the file: {problem}") for problem in found.problems]
        seen |= set(found.names)
        if found.spans is None:
            skipped.append(Skipped(shown, NO_TIER))
        elif isinstance(found.media, str):
            skipped.append(Skipped(shown, found.media))
        else:
            rows += span_rows(found.spans, path, root, found.media, language, config, skipped)
    if not rows and seen and NO_TIER in {each.reason for each in skipped}:
        named = ", ".join(sorted(map(clip, seen))[:20])
        raise ArborvoxError(f"{source}: nothing on the tiers asked for; there are: {named}.")
    if config.split == "speaker" and config.speaker_from is None:
        nameless = next((row for row in rows if row.speaker is None), None)
        if nameless is not None:  # told before every recording is looked at
            raise ArborvoxError(
                f"--split speaker: nobody says who speaks in {nameless.shown}; name tiers after "
                "speakers as in tx@Ana, say --speaker-from tier, folder or name, or use another "
                "--split."
            )
    return prepare_rows(keep_unique(rows, skipped), config, stage, jobs, skipped)


def is_named(tier: Tier, names: Sequence[str]) -> bool:
    """Whether a tier is asked for by its name; `tx` is also `tx@Ana`, the tier of a speaker."""
    return tier.name in names or tier.name.partition("@")[0] in names


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


def beside_of(path: Path) -> Path | None:
    """Return the recording of the same name beside a file."""
    try:
        names = sorted(path.parent.iterdir())
    except OSError:
        return None
    return next((each for each in names if each.stem == path.stem and is_audio(each)), None)


def is_audio(path: Path) -> bool:
    """Whether there is a recording of a name."""
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
    config: TierCorpus,
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
                speaker=_speaker(tier, audio, config),
                recording_id=name,
                start_s=span.start_s + origin_s,
                segment_s=length_s,
            )


def _speaker(tier: Tier, audio: Path, config: TierCorpus) -> str | None:
    told = tier.participant or tier.name.partition("@")[2].strip()
    if config.speaker_from == "tier":
        return told or tier.name.strip() or None
    return speaker_of(audio, told, config.speaker_from)


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
