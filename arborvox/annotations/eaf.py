"""ELAN's annotation files, versions 2 and 3: tiers with times, whatever they hang on.

<TIME_SLOT TIME_SLOT_ID="ts1" TIME_VALUE="780"/>
<TIER TIER_ID="tx@A" PARTICIPANT="A" LINGUISTIC_TYPE_REF="default-lt"><ANNOTATION>
<ALIGNABLE_ANNOTATION ANNOTATION_ID="a1" TIME_SLOT_REF1="ts1" TIME_SLOT_REF2="ts2">
<ANNOTATION_VALUE>bon dia</ANNOTATION_VALUE></ALIGNABLE_ANNOTATION></ANNOTATION></TIER>
"""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast, get_args

from arborvox.annotations.safe_xml import walk_bytes, walk_file
from arborvox.annotations.tiers import MOST_SECONDS, Annotation, Constraint, Tier
from arborvox.errors import ArborvoxError

ROOT = "ANNOTATION_DOCUMENT"
CONSTRAINTS = get_args(Constraint)
MOST_MS = int(MOST_SECONDS * 1000)
LONGEST_VALUE = 100_000  # characters


@dataclass(frozen=True)
class Media:
    """A recording that a file is linked with."""

    url: str
    relative_url: str = ""
    origin_s: float = 0.0  # where in the recording the annotations' time begins


@dataclass(frozen=True)
class EafDocument:
    """What is in a file, and what of it could not be read."""

    media: tuple[Media, ...]
    tiers: tuple[Tier, ...]
    problems: tuple[str, ...] = ()

    def tier(self, name: str) -> Tier | None:
        """Return the tier of a name."""
        return next((tier for tier in self.tiers if tier.name == name), None)


def read_eaf(source: Path | bytes, name: str = "the file") -> EafDocument:
    """Read a file, or its bytes; what is wrong with one annotation costs that one alone."""
    reader = _Reader()
    if isinstance(source, Path):
        name = str(source)
        walk_file(source, reader)
    else:
        walk_bytes(source, name, reader)
    if reader.root != ROOT:
        shown = ascii(reader.root)[:40]
        raise ArborvoxError(f"{name} is no EAF: its outermost element is {shown}, not {ROOT}.")
    if reader.time_units not in ("", "milliseconds"):
        raise ArborvoxError(
            f"{name}: its times are {ascii(reader.time_units)[:40]}, not milliseconds; save it "
            "with a newer ELAN."
        )
    return _Resolver(reader).document()


@dataclass(slots=True)
class _RawAnnotation:
    id: str
    value: str = ""
    slots: tuple[str, str] | None = None  # of an alignable one
    above: str = ""  # of a reference annotation: what it refers to, and what stands before it
    before: str = ""


@dataclass(slots=True)
class _RawTier:
    attributes: dict[str, str]
    annotations: list[_RawAnnotation] = field(default_factory=list)

    @property
    def name(self) -> str:
        return self.attributes.get("TIER_ID", "")


class _Reader:
    """Takes from the stream what is known; every other element is passed over."""

    def __init__(self) -> None:
        self.root = ""
        self.time_units = ""
        self.media: list[Media] = []
        self.slots: dict[str, int | None] = {}
        self.tiers: list[_RawTier] = []
        self.constraints: dict[str, str] = {}  # of linguistic types
        self.problems: list[str] = []
        self._value: list[str] | None = None
        self._length = 0

    def encoding(self, name: str) -> None:
        pass

    def start(self, tag: str, attributes: dict[str, str], at: int) -> None:
        if not self.root:
            self.root = tag
        elif tag == "HEADER":
            self.time_units = attributes.get("TIME_UNITS", "")
        elif tag == "MEDIA_DESCRIPTOR":
            origin = _whole(attributes.get("TIME_ORIGIN", "0")) or 0
            relative = attributes.get("RELATIVE_MEDIA_URL", "")
            self.media.append(Media(attributes.get("MEDIA_URL", ""), relative, origin / 1000))
        elif tag == "TIME_SLOT":
            self._read_slot(attributes)
        elif tag == "LINGUISTIC_TYPE":
            constraint = attributes.get("CONSTRAINTS", "")
            self.constraints[attributes.get("LINGUISTIC_TYPE_ID", "")] = constraint
        elif tag == "TIER":
            self.tiers.append(_RawTier(attributes))
        elif tag in ("ALIGNABLE_ANNOTATION", "REF_ANNOTATION") and self.tiers:
            found = _RawAnnotation(attributes.get("ANNOTATION_ID", ""))
            if tag == "ALIGNABLE_ANNOTATION":
                first, last = attributes.get("TIME_SLOT_REF1", ""), attributes.get("TIME_SLOT_REF2")
                found.slots = (first, last or "")
            else:
                found.above = attributes.get("ANNOTATION_REF", "")
                found.before = attributes.get("PREVIOUS_ANNOTATION", "")
            self.tiers[-1].annotations.append(found)
        elif tag == "ANNOTATION_VALUE" and self.tiers and self.tiers[-1].annotations:
            self._value, self._length = [], 0

    def end(self, tag: str, at: int) -> None:
        if tag == "ANNOTATION_VALUE" and self._value is not None:
            found = self.tiers[-1].annotations[-1]
            found.value = "".join(self._value)
            if self._length > LONGEST_VALUE:
                reason = f"cut off after {LONGEST_VALUE:,} characters"
                self.problems.append(f"annotation {found.id}: {reason}")
                found.value = found.value[:LONGEST_VALUE]
            self._value = None

    def text(self, data: str) -> None:
        if self._value is not None:
            self._length += len(data)
            if self._length - len(data) <= LONGEST_VALUE:
                self._value.append(data)

    def _read_slot(self, attributes: dict[str, str]) -> None:
        name, told = attributes.get("TIME_SLOT_ID", ""), attributes.get("TIME_VALUE")
        value = None if told is None else _whole(told)
        if told is not None and value is None:
            self.problems.append(f"time slot {name}: {ascii(told)[:40]} is no time in milliseconds")
            return
        self.slots[name] = value


class _Resolver:
    """Gives every annotation its times: its own, those between its neighbors', or its parent's."""

    def __init__(self, reader: _Reader) -> None:
        self._reader = reader
        self._problems = list(reader.problems)
        # By tier and annotation: place on the tier, and times in milliseconds.
        self._found: dict[tuple[str, str], tuple[int, int, int]] = {}

    def document(self) -> EafDocument:
        """Return the tiers in the file's order."""
        raw = self._reader.tiers
        done: dict[int, Tier] = {}
        names: set[str] = set()
        for number in _parents_first(raw):
            if raw[number].name in names:
                self._problems.append(f"tier {raw[number].name}: another one has its name")
            else:
                done[number] = self._tier(raw[number])
                names.add(raw[number].name)
        for number in sorted(set(range(len(raw))) - set(done)):
            if raw[number].name not in names:
                reason = "its parent is missing, or hangs on the tier itself"
                self._problems.append(f"tier {raw[number].name}: {reason}")
        tiers = tuple(done[number] for number in sorted(done))
        return EafDocument(tuple(self._reader.media), tiers, tuple(self._problems))

    def _tier(self, raw: _RawTier) -> Tier:
        type_name = raw.attributes.get("LINGUISTIC_TYPE_REF", "")
        told = self._reader.constraints.get(type_name, "")
        constraint = cast(Constraint, told) if told in CONSTRAINTS else None
        times = {**self._aligned(raw), **self._referring(raw)}
        annotations: list[Annotation] = []
        for number, found in enumerate(raw.annotations):
            if number not in times:
                self._problems.append(f"tier {raw.name}, annotation {found.id}: no times")
                continue
            start_ms, end_ms, parent = times[number]
            self._found[raw.name, found.id] = (len(annotations), start_ms, end_ms)
            annotations.append(Annotation(start_ms / 1000, end_ms / 1000, found.value, parent))
        return Tier(
            name=raw.name,
            annotations=tuple(annotations),
            participant=raw.attributes.get("PARTICIPANT", ""),
            type_name=type_name,
            parent=raw.attributes.get("PARENT_REF"),
            constraint=constraint,
        )

    def _aligned(self, raw: _RawTier) -> dict[int, tuple[int, int, None]]:
        """Return the times of annotations between time slots, by their number."""
        slots = self._reader.slots
        times: dict[int, tuple[int, int, None]] = {}
        chain: list[int] = []
        for number, found in enumerate(raw.annotations):
            if found.slots is None or not all(slot in slots for slot in found.slots):
                continue
            before = raw.annotations[chain[-1]].slots if chain else None
            if before is not None and before[1] != found.slots[0]:
                times.update(self._chain_times(raw, chain))
                chain = []
            chain.append(number)
        times.update(self._chain_times(raw, chain))
        return times

    def _chain_times(
        self, raw: _RawTier, chain: list[int]
    ) -> Iterator[tuple[int, tuple[int, int, None]]]:
        """Yield the times of annotations that join; slots without a time share what is between."""
        spans = [raw.annotations[number].slots or ("", "") for number in chain]
        names = [span[0] for span in spans] + [span[1] for span in spans[-1:]]
        values: list[int | None] = [self._reader.slots[name] for name in names]
        known = [place for place, value in enumerate(values) if value is not None]
        for first, last in itertools.pairwise(known):
            begin, end = values[first] or 0, values[last] or 0
            for place in range(first + 1, last):
                values[place] = begin + round((end - begin) * (place - first) / (last - first))
        for place, number in enumerate(chain):
            start_ms, end_ms = values[place], values[place + 1]
            if start_ms is not None and end_ms is not None:
                yield number, (start_ms, end_ms, None)

    def _referring(self, raw: _RawTier) -> dict[int, tuple[int, int, int]]:
        """Return the times of annotations that refer to others: each an even share of them."""
        parent = raw.attributes.get("PARENT_REF", "")
        children: dict[str, list[int]] = {}
        for number, found in enumerate(raw.annotations):
            if found.slots is None and (parent, found.above) in self._found:
                children.setdefault(found.above, []).append(number)
        times: dict[int, tuple[int, int, int]] = {}
        for above, numbers in children.items():
            place, start_ms, end_ms = self._found[parent, above]
            edges = [
                start_ms + round((end_ms - start_ms) * nth / len(numbers))
                for nth in range(len(numbers) + 1)
            ]
            for nth, number in enumerate(_in_order(raw, numbers)):
                times[number] = (edges[nth], edges[nth + 1], place)
        return times


def _in_order(raw: _RawTier, numbers: list[int]) -> list[int]:
    """Return siblings as each says what stands before it; others as they come in the file."""
    after = {raw.annotations[n].before: n for n in numbers if raw.annotations[n].before}
    ordered: dict[int, None] = {}
    for number in numbers:
        if raw.annotations[number].before:
            continue
        current: int | None = number
        while current is not None and current not in ordered:
            ordered[current] = None
            current = after.get(raw.annotations[current].id)
    return [*ordered, *(number for number in numbers if number not in ordered)]


def _parents_first(raw: list[_RawTier]) -> list[int]:
    """Return the numbers of the tiers, each after its parent; those in a circle are left out."""
    children: dict[str, list[int]] = {}
    ready: list[int] = []
    for number, tier in enumerate(raw):
        parent = tier.attributes.get("PARENT_REF")
        if parent is None:
            ready.append(number)
        else:
            children.setdefault(parent, []).append(number)
    for number in ready:  # grows
        ready += children.pop(raw[number].name, [])
    return ready


def spoken_spans(document: EafDocument, tier: Tier) -> list[Annotation]:
    """Return what a tier says of each stretch of time that a person has marked.

    On a symbolic tier that is the stretch of the nearest annotation above that has times of its
    own; what divides it is joined with spaces again.
    """
    by_name = {each.name: each for each in document.tiers}
    spans: dict[tuple[str, int], list[str]] = {}
    for place, annotation in enumerate(tier.annotations):
        on, above = tier, place
        while on.is_symbolic and on.annotations[above].parent is not None:
            above = on.annotations[above].parent or 0
            on = by_name[on.parent or ""]
        spans.setdefault((on.name, above), []).append(annotation.value)
    return [
        Annotation(marked.start_s, marked.end_s, " ".join(filter(None, values)))
        for marked, values in (
            (by_name[name].annotations[place], values) for (name, place), values in spans.items()
        )
    ]


def _whole(text: str) -> int | None:
    """Read a whole number of milliseconds that a recording can have."""
    text = text.strip()
    if not text.isascii() or not text.isdigit() or len(text) > 12 or int(text) > MOST_MS:
        return None
    return int(text)
