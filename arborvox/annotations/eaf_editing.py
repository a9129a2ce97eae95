"""New tiers for ELAN's files: everything that a file has stays as it is, byte for byte."""

import bisect
import codecs
import contextlib
import itertools
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from urllib.parse import quote

from arborvox.annotations.eaf import CONSTRAINTS, MOST_MS, ROOT
from arborvox.annotations.safe_xml import escaped, quoted, walk_bytes
from arborvox.annotations.tiers import Annotation, Tier
from arborvox.errors import ArborvoxError

# The order of the elements below the outermost one, as the schema has it.
ORDER = (
    "LICENSE HEADER TIME_ORDER TIER LINGUISTIC_TYPE LOCALE LANGUAGE CONSTRAINT "
    "CONTROLLED_VOCABULARY LEXICON_REF REF_LINK_SET EXTERNAL_REF"
).split()
DESCRIPTIONS = {
    "Time_Subdivision": "Time subdivision of parent annotation's time interval, no time gaps "
    "allowed within this interval",
    "Symbolic_Subdivision": "Symbolic subdivision of a parent annotation. Annotations refering to "
    "the same parent are ordered",
    "Symbolic_Association": "1-1 association with a parent annotation",
    "Included_In": "Time alignable annotations within the parent annotation's time interval, gaps "
    "are allowed",
}
MIME_TYPES = {".wav": "audio/x-wav", ".mp4": "video/mp4", ".mpg": "video/mpeg"}
# Ids of one file are of one kind, whatever they name.
_ID_ATTRIBUTES = re.compile(r".*_ID|LANGUAGE_CODE|STEREOTYPE")


def make_eaf(
    tiers: Sequence[Tier], media: Path | None, date: datetime, folder: Path | None = None
) -> bytes:
    """Write a file of version 3.0 with some tiers, linked with a recording.

    `folder` is where the file will lie, if that is known: from there the recording is found even if
    both are moved.
    """
    linked = "" if media is None else f"        {_media(media, folder)}\n"
    constraints = "".join(f"    {_constraint(name)}\n" for name in CONSTRAINTS)
    empty = (
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        f'<{ROOT} AUTHOR="arborvox" DATE="{date.isoformat(timespec="seconds")}" FORMAT="3.0" '
        'VERSION="3.0" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" '
        'xsi:noNamespaceSchemaLocation="http://www.mpi.nl/tools/elan/EAFv3.0.xsd">\n'
        f'    <HEADER MEDIA_FILE="" TIME_UNITS="milliseconds">\n{linked}    </HEADER>\n'
        f"    <TIME_ORDER>\n    </TIME_ORDER>\n{constraints}</{ROOT}>\n"
    )
    return add_tiers(empty.encode(), tiers, "the new file")


def add_tiers(data: bytes, tiers: Sequence[Tier], name: str) -> bytes:
    """Add tiers behind those that a file has; the file's own bytes all remain.

    A tier may hang on one before it. `name` is for messages.
    """
    sketch = _Sketch()
    walk_bytes(data, name, sketch)
    if sketch.root != ROOT or sketch.slots_end is None:
        raise ArborvoxError(f"{name} is no EAF: it has no {ROOT} with a TIME_ORDER.")
    names = set(sketch.tiers)
    for tier in tiers:
        if tier.name in names:
            raise ArborvoxError(f"{name} has a tier {tier.name!r} already; choose another name.")
        names.add(tier.name)
    return _Editor(data, sketch, name).edit(tiers)


@dataclass
class _Sketch:
    """Where things stand in a file, and which names are taken."""

    root: str = ""
    declared: str = ""
    tiers: list[str] = field(default_factory=list)
    types: dict[str, dict[str, str]] = field(default_factory=dict)
    constraints: set[str] = field(default_factory=set)
    ids: set[str] = field(default_factory=set)
    slots: list[tuple[int, int]] = field(default_factory=list)  # milliseconds so far, place
    slots_end: int | None = None
    places: list[tuple[str, int]] = field(default_factory=list)  # of elements below the outermost
    depth: int = 0

    def encoding(self, name: str) -> None:
        self.declared = name

    def start(self, tag: str, attributes: dict[str, str], at: int) -> None:
        self.root = self.root or tag
        if self.depth == 1:
            self.places.append((tag, at))
        self.depth += 1
        self.ids.update(value for key, value in attributes.items() if _ID_ATTRIBUTES.fullmatch(key))
        if tag == "TIER":
            self.tiers.append(attributes.get("TIER_ID", ""))
        elif tag == "LINGUISTIC_TYPE":
            self.types[attributes.get("LINGUISTIC_TYPE_ID", "")] = attributes
        elif tag == "CONSTRAINT":
            self.constraints.add(attributes.get("STEREOTYPE", ""))
        elif tag == "TIME_SLOT":
            told = attributes.get("TIME_VALUE", "")
            value = int(told) if told.isascii() and told.isdigit() and len(told) <= 12 else 0
            latest = self.slots[-1][0] if self.slots else 0
            self.slots.append((max(value, latest), at))

    def end(self, tag: str, at: int) -> None:
        self.depth -= 1
        if tag == "TIME_ORDER" and self.depth == 1:
            self.slots_end = at
        if self.depth == 0:
            self.places.append(("", at))

    def text(self, data: str) -> None:
        pass


class _Editor:
    """Collects what is put in, and where."""

    def __init__(self, data: bytes, sketch: _Sketch, name: str) -> None:
        self._data, self._sketch, self._name = data, sketch, name
        self._encoding = _encoding_of(data, sketch.declared)
        self._insertions: dict[int, list[str]] = {}
        stems = (f"av{number or ''}_" for number in itertools.count())
        self._stem = next(s for s in stems if not any(taken.startswith(s) for taken in sketch.ids))
        self._num_ids = 0
        self._slots: list[tuple[int, str]] = []
        self._ids: dict[str, list[str]] = {}  # of annotations, by tier

    def edit(self, tiers: Sequence[Tier]) -> bytes:
        """Return the bytes with the tiers in them."""
        types: dict[str, str] = {}
        for tier in tiers:
            type_name = self._type_for(tier, types)
            self._insert_element("TIER", self._tier_text(tier, type_name))
        for text in types.values():
            self._insert_element("LINGUISTIC_TYPE", text)
        for constraint in dict.fromkeys(tier.constraint for tier in tiers):
            if constraint is not None and constraint not in self._sketch.constraints:
                self._insert_element("CONSTRAINT", _constraint(constraint))
        return self._assemble()

    def _type_for(self, tier: Tier, types: dict[str, str]) -> str:
        """Name a linguistic type with the tier's constraint: one that is there, or a new one."""
        stem = tier.type_name or "default-lt"
        for number in itertools.count(1):
            name = stem if number == 1 else f"{stem}-{number}"
            known = self._sketch.types.get(name)
            constraint = "" if tier.constraint is None else tier.constraint
            if known is None:
                alignable = "false" if tier.is_symbolic else "true"
                told = f' CONSTRAINTS="{constraint}"' if constraint else ""
                types[name] = (
                    f'<LINGUISTIC_TYPE{told} GRAPHIC_REFERENCES="false" '
                    f'LINGUISTIC_TYPE_ID={quoted(name)} TIME_ALIGNABLE="{alignable}"/>'
                )
                self._sketch.types[name] = {"CONSTRAINTS": constraint}
            elif known.get("CONSTRAINTS", "") != constraint or "CONTROLLED_VOCABULARY_REF" in known:
                continue
            return name
        raise AssertionError("numbers do not end")

    def _tier_text(self, tier: Tier, type_name: str) -> str:
        attributes = {
            "LINGUISTIC_TYPE_REF": type_name,
            "PARENT_REF": tier.parent,
            "PARTICIPANT": tier.participant or None,
            "TIER_ID": tier.name,
        }
        told = " ".join(f"{k}={quoted(v)}" for k, v in attributes.items() if v is not None)
        ids = self._ids[tier.name] = []
        lines = [f"<TIER {told}>"]
        latest: dict[int, str] = {}
        for annotation in tier.annotations:
            identity = self._new_id()
            ids.append(identity)
            place = self._place_text(tier, annotation, latest)
            kind = "REF_ANNOTATION" if tier.is_symbolic else "ALIGNABLE_ANNOTATION"
            if annotation.parent is not None:
                latest[annotation.parent] = identity
            lines.append(
                f'        <ANNOTATION><{kind} ANNOTATION_ID="{identity}" {place}>'
                f"<ANNOTATION_VALUE>{escaped(annotation.value)}</ANNOTATION_VALUE>"
                f"</{kind}></ANNOTATION>"
            )
        return "\n".join([*lines, "    </TIER>"])

    def _place_text(self, tier: Tier, annotation: Annotation, latest: dict[int, str]) -> str:
        """Return where an annotation is: between two time slots, or on another one."""
        if not tier.is_symbolic:
            first, last = (self._new_slot(at_s) for at_s in (annotation.start_s, annotation.end_s))
            return f'TIME_SLOT_REF1="{first}" TIME_SLOT_REF2="{last}"'
        assert tier.parent is not None and annotation.parent is not None
        told = f'ANNOTATION_REF="{self._ids[tier.parent][annotation.parent]}"'
        if tier.constraint == "Symbolic_Subdivision" and annotation.parent in latest:
            told += f' PREVIOUS_ANNOTATION="{latest[annotation.parent]}"'
        return told

    def _new_id(self) -> str:
        self._num_ids += 1
        return f"{self._stem}{self._num_ids}"

    def _new_slot(self, at_s: float) -> str:
        at_ms = min(max(round(at_s * 1000), 0), MOST_MS)
        identity = self._new_id()
        self._slots.append((at_ms, identity))
        return identity

    def _insert_element(self, tag: str, text: str) -> None:
        """Put an element behind those that the schema wants before it."""
        rank = ORDER.index(tag)
        places = self._sketch.places
        last = max(
            number
            for number, (other, _) in enumerate(places)
            if other in ORDER and ORDER.index(other) <= rank
        )
        self._insert(places[last + 1][1], text)

    def _insert(self, at: int, text: str) -> None:
        self._insertions.setdefault(at, []).append(text)

    def _assemble(self) -> bytes:
        """Join the pieces of the file with what comes between them."""
        end = self._sketch.slots_end or 0
        times = [value for value, _ in self._sketch.slots]
        behind = []
        for at_ms, identity in sorted(self._slots, key=lambda slot: slot[0]):
            text = f'<TIME_SLOT TIME_SLOT_ID="{identity}" TIME_VALUE="{at_ms}"/>'
            later = bisect.bisect_right(times, at_ms)
            if later < len(times):
                self._insert(self._sketch.slots[later][1], text)
            else:
                behind.append(text)
        pieces, done = [], 0
        # <TIME_ORDER/> has to be opened before there can be something in it.
        is_empty = not self._data.startswith(self._encode("</"), end)
        if behind and not is_empty:
            self._insertions[end] = behind + self._insertions.get(end, [])
        elif behind:
            slots = "\n".join(behind)
            pieces.append(self._data[:end].removesuffix(self._encode("/>")))
            pieces.append(self._encode(f">\n{slots}\n</TIME_ORDER>"))
            done = end
        for at, texts in sorted(self._insertions.items()):
            pieces.append(self._data[done:at])
            pieces += [self._encode(f"{text}\n{self._indent(at)}") for text in texts]
            done = at
        return b"".join([*pieces, self._data[done:]])

    def _indent(self, at: int) -> str:
        """Return the spaces and tabs before a place in the file."""
        before = self._data[max(0, at - 256) : at].decode(self._encoding, "replace")
        return before[len(before.rstrip(" \t")) :]

    def _encode(self, text: str) -> bytes:
        return text.encode(self._encoding, "xmlcharrefreplace")


def _encoding_of(data: bytes, declared: str) -> str:
    """Return a file's encoding as XML decides it: a mark before all, then the declaration."""
    for mark, encoding in ((codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be")):
        if data.startswith(mark):
            return encoding
    return declared or "utf-8"


def _media(media: Path, folder: Path | None) -> str:
    relative = ""
    if folder is not None:
        # On Windows there is no way from one drive to another.
        with contextlib.suppress(ValueError):
            way = Path(os.path.relpath(media.absolute(), folder.absolute())).as_posix()
            way = way if way.startswith("../") else f"./{way}"
            relative = f" RELATIVE_MEDIA_URL={quoted(quote(way))}"
    mime_type = MIME_TYPES.get(media.suffix.lower(), "audio/*")
    url = quoted(media.absolute().as_uri())
    return f'<MEDIA_DESCRIPTOR MEDIA_URL={url} MIME_TYPE="{mime_type}"{relative}/>'


def _constraint(name: str) -> str:
    return f'<CONSTRAINT DESCRIPTION={quoted(DESCRIPTIONS[name])} STEREOTYPE="{name}"/>'
