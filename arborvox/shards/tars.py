"""Tar files read once from front to back: recordings with what belongs to them, and where they lie.

Lhotse Shar     cuts.000000.jsonl.gz beside recording.000000.tar, which holds ID.flac, ID.json, …
WebDataset      000000.tar, which holds KEY.flac (or .wav, .mp3 …), KEY.txt and KEY.json
"""

import gzip
import io
import json
import re
import tarfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from arborvox.audio import AudioInfo, AudioProblem, check
from arborvox.errors import one_line
from arborvox.manifest import MOST_LINE_BYTES, SHARD, Utterance, parse_cut
from arborvox.shards.addresses import join_address, list_folder, open_address
from arborvox.shards.members import MOST_MEMBER_BYTES, Member, file_of

AUDIO_ENDINGS = frozenset("wav flac mp3 ogg opus m4a sph aiff aif webm".split())
_CUTS = re.compile(r"cuts\.(.+)\.jsonl(\.gz)?")
_RECORDINGS = "recording.{}.tar"
MOST_TEXT_BYTES = 1 << 20
# What tarfile and its decompressors raise for files that are cut off or none at all.
BROKEN = (tarfile.TarError, EOFError, OSError, zlib.error)


@dataclass(frozen=True)
class ShardFiles:
    """A shard: its tar, and in a Lhotse Shar the cuts that belong to it."""

    name: str  # for lists and messages
    tar: str  # address
    cuts: str | None = None


@dataclass
class ShardReport:
    """What was found in a shard, and what is wrong with it."""

    utterances: list[Utterance] = field(default_factory=list)
    skipped: list[tuple[str, str]] = field(default_factory=list)  # item, reason
    problem: str = ""  # of the shard as a whole


@dataclass(frozen=True)
class Entry:
    """What a tar has under one key."""

    key: str
    audio: Member | None
    sound: bytes  # kept only where it has to be looked at
    texts: dict[str, bytes]  # by ending


def find_shards(folder: str) -> list[ShardFiles]:
    """Find the shards of a folder, in the order of their names."""
    names = list_folder(folder)
    numbers = {parts[1]: name for name in names if (parts := _CUTS.fullmatch(name))}
    if numbers:
        shards = []
        for number, cuts in sorted(numbers.items()):
            tar = _RECORDINGS.format(number)
            address = join_address(folder, tar)
            shards.append(ShardFiles(tar, address, join_address(folder, cuts)))
        return shards
    tars = [name for name in names if name.endswith(".tar")]
    return [ShardFiles(name, join_address(folder, name)) for name in tars]


def read_shard(shard: ShardFiles, language: str | None, *, decode: bool) -> ShardReport:
    """Read a shard once; what is missing or cut off is told, the rest is there.

    language: of items that name none. decode: listen to every recording to its end.
    """
    report = ShardReport()
    if shard.cuts is None:
        for entry in _entries(shard, report, keep_sound=lambda ending: ending in AUDIO_ENDINGS):
            _add(report, entry.key, _plain_item(entry, language, decode=decode))
        return report
    cuts = _read_cuts(shard.cuts, report)
    for entry in _entries(shard, report, keep_sound=lambda ending: decode):
        cut = cuts.pop(entry.key, None)
        if cut is None:
            report.skipped.append((entry.key, "no cut of that name"))
        elif entry.audio is not None:
            _add(report, entry.key, _shar_item(cut, entry, language, decode=decode))
        else:
            report.skipped.append((entry.key, "no audio"))
    reason = report.problem or "not in its shard"
    report.skipped += [(key, reason) for key in cuts]
    return report


def _add(report: ShardReport, key: str, found: Utterance | str) -> None:
    if isinstance(found, str):
        report.skipped.append((key, found))
    else:
        report.utterances.append(found)


def _read_cuts(address: str, report: ShardReport) -> dict[str, dict[str, Any]]:
    """Read the cuts of a shard by id, as many as are whole."""
    cuts: dict[str, dict[str, Any]] = {}
    number = 0
    try:
        with open_address(address) as raw:
            stream: Any = gzip.GzipFile(fileobj=raw) if address.endswith(".gz") else raw
            while line := stream.readline(MOST_LINE_BYTES + 1):
                number += 1
                cut = _parse_object(line) if len(line) <= MOST_LINE_BYTES else None
                if cut is None or not isinstance(cut.get("id"), str):
                    report.skipped.append((f"{address}, line {number}", "not a Lhotse cut"))
                else:
                    cuts[cut["id"]] = cut
    except FileNotFoundError:
        report.problem = f"shard {address} is missing"
    except BROKEN as error:
        report.problem = f"shard {address} ends in the middle ({one_line(str(error))})"
    return cuts


def _entries(
    shard: ShardFiles, report: ShardReport, keep_sound: Callable[[str], bool]
) -> Iterator[Entry]:
    """Yield what belongs together; neighbors of one key do. A tar that breaks off is told."""
    key = ""
    audio: Member | None = None
    sound = b""
    texts: dict[str, bytes] = {}
    # A shard is only as good as its bytes: a member counts when all of it was read.
    try:
        with open_address(shard.tar) as raw, tarfile.open(fileobj=raw, mode="r|") as tar:
            for info in tar:
                if not info.isfile():
                    continue
                stem, ending = _split_name(info.name, whole_stem=shard.cuts is not None)
                if stem != key and key:
                    yield Entry(key, audio, sound, texts)
                if stem != key:
                    key, audio, sound, texts = stem, None, b"", {}
                if ending in AUDIO_ENDINGS:
                    if info.size > MOST_MEMBER_BYTES:
                        report.skipped.append((stem, f"too large: {info.size:,} bytes"))
                        continue
                    data = _read_member(tar, info, keep=keep_sound(ending))
                    audio, sound = Member(shard.tar, info.offset_data, info.size), data
                elif info.size <= MOST_TEXT_BYTES:
                    texts[ending] = _read_member(tar, info, keep=True)
    except FileNotFoundError:
        report.problem = f"shard {shard.tar} is missing"
    except BROKEN as error:
        report.problem = f"shard {shard.tar} ends in the middle ({one_line(str(error))})"
    if key and (audio or texts):
        yield Entry(key, audio, sound, texts)


def _read_member(tar: tarfile.TarFile, info: tarfile.TarInfo, *, keep: bool) -> bytes:
    """Read a member to its end, which may not be there; return it where it is wanted."""
    file = tar.extractfile(info)
    assert file is not None  # only folders and links have none
    parts = []
    left = info.size
    while left:
        block = file.read(min(left, 1 << 20))
        if not block:
            raise EOFError(f"{info.name} is cut off")
        left -= len(block)
        if keep:
            parts.append(block)
    return b"".join(parts)


def _split_name(name: str, *, whole_stem: bool) -> tuple[str, str]:
    """Split a member's name into key and ending: Shar at the last dot, WebDataset at the first."""
    folder, slash, base = name.rpartition("/")
    stem, _, ending = base.rpartition(".") if whole_stem else base.partition(".")
    return f"{folder}{slash}{stem}", ending.lower()


def _shar_item(
    cut: dict[str, Any], entry: Entry, language: str | None, *, decode: bool
) -> Utterance | str:
    """Put a cut together with the recording that lies in the tar: its part alone, from 0 on."""
    recording = _parse_object(entry.texts.get("json", b""))
    if recording is None:
        return "no description of the recording"
    source = {"type": "shard", "source": str(entry.audio).removeprefix(SHARD)}
    recording = {**recording, "sources": [source], "transforms": None}
    found = parse_cut({**cut, "start": 0, "recording": recording})
    if isinstance(found, str):
        return found
    if decode and (problem := _sound_problem(entry.sound)):
        return problem
    return _with_language(found, cut, language)


def _with_language(found: Utterance, cut: dict[str, Any], language: str | None) -> Utterance:
    told = cut["supervisions"][0].get("language")
    return replace(found, language=language) if language and not told else found


def _sound_problem(sound: bytes) -> str:
    try:
        _look_at(sound, decode=True)
    except AudioProblem as problem:
        return str(problem)
    return ""


def _look_at(sound: bytes, *, decode: bool) -> AudioInfo:
    with file_of(sound) as path:
        return check(path, max_duration_s=float("inf"), min_duration_s=0.0, decode=decode)


def _plain_item(entry: Entry, language: str | None, *, decode: bool) -> Utterance | str:
    """Make an utterance of a recording with its text and what a JSON file says of it."""
    if entry.audio is None:
        return "no audio"
    facts = _parse_object(entry.texts["json"]) if "json" in entry.texts else {}
    if facts is None:
        return "its JSON is no object"
    try:
        text = entry.texts["txt"].decode() if "txt" in entry.texts else facts.get("text")
    except UnicodeDecodeError:
        return "text is not UTF-8"
    if not isinstance(text, str):
        return "no text: neither KEY.txt nor `text` in KEY.json"
    try:
        info = _look_at(entry.sound, decode=decode)
    except AudioProblem as problem:
        return str(problem)
    named = {key: facts[key] for key in ("id", "language", "speaker") if facts.get(key)}
    supervision = {"text": text.strip(), "language": language, **named}
    duration_s = info.duration_s
    recording = {
        "id": entry.key,
        "sources": [{"type": "shard", "source": str(entry.audio).removeprefix(SHARD)}],
        "sampling_rate": info.sampling_rate,
        "num_samples": info.num_samples,
        "channel_ids": list(range(info.num_channels)),
    }
    cut = {
        "id": named.get("id", entry.key),
        "start": 0,
        "duration": duration_s,
        "supervisions": [{**supervision, "start": 0, "duration": duration_s}],
        "recording": recording,
    }
    return parse_cut(cut)


def _parse_object(data: bytes) -> dict[str, Any] | None:
    try:
        value = json.load(io.BytesIO(data))
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None
