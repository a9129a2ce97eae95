"""Manifests: what an utterance is, the files' names, and the only reader and writer of cuts.

A manifest is a Lhotse cut manifest (JSON lines, gzip), so that other tools read ours and ours
theirs. A line may come from anywhere: it is checked, and nothing that it names is run or fetched.
"""

import gzip
import io
import json
import re
import shutil
import zlib
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from json.encoder import encode_basestring as quote
from pathlib import Path
from typing import Any

from arborvox.errors import ArborvoxError
from arborvox.files import (
    atomic_path,
    open_gzip_reproducible,
    open_unpacked,
    pack_reproducible,
    path_below,
)
from arborvox.text.codes import check_language, check_languages, file_stem

SPLIT_NAMES = ("train", "dev", "test")
SUFFIX = ".jsonl.gz"
NO_LANGUAGE = "und"  # BCP 47's "undetermined"

# Longer lines are no cuts: ours have 600 bytes, those with word alignments a few thousand.
MOST_LINE_BYTES = 1 << 20
# No recording has more of these, and no utterance less: what is computed of them stays finite.
MOST_SECONDS, MOST_SAMPLES, MOST_RATE_HZ = 1e6, 10**12, 10**7
LEAST_SECONDS = 1e-5
# A supervision may miss its cut's ends, and a cut its recording's, by the rounding of other tools.
TOLERANCE_S = 0.02

# How the text of a recording begins that lies in a shard: shard:ADDRESS#OFFSET+SIZE.
SHARD = "shard:"

_SURROGATE = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class Utterance:
    """A stretch of a recording with what is said in it."""

    id: str
    audio: str
    language: str
    text: str
    sampling_rate: int
    num_samples: int  # of the whole recording
    num_channels: int = 1
    speaker: str | None = None
    recording_id: str | None = None  # where several utterances share a recording
    start_s: float = 0.0
    segment_s: float | None = None  # None: the whole recording

    @property
    def duration_s(self) -> float:
        """The length of the stretch."""
        if self.segment_s is not None:
            return self.segment_s
        return self.num_samples / self.sampling_rate


def split_file(split: str) -> str:
    """Return the name of a split's manifest."""
    return f"cuts_{split}{SUFFIX}"


def read_manifest(path: Path) -> Iterator[Utterance]:
    """Yield the utterances of a manifest, one a line; refuse a line that is none, and name it."""
    for _, utterance in _read_cuts(path):
        yield utterance


def load_manifest(path: Path) -> list[Utterance]:
    """Read a manifest that fits in memory, such as a test set; refuse ids that stand twice."""
    found: dict[str, Utterance] = {}
    for number, utterance in enumerate(read_manifest(path), start=1):
        if utterance.id in found:
            raise ArborvoxError(
                f"{path}, line {number}: the id {utterance.id!r} stands in a line above already."
            )
        found[utterance.id] = utterance
    return list(found.values())


def write_cuts(path: Path, utterances: Iterable[Utterance]) -> None:
    """Write a manifest whose bytes depend on the utterances alone."""
    with open_gzip_reproducible(path) as file:
        for utterance in utterances:
            file.write(cut_line(utterance).encode())


def append_cuts(source: Path, target: Path, *, left_out: Collection[str] = ()) -> None:
    """Put a manifest behind another one, without the cuts of some languages."""
    with target.open("ab") as joined:
        if not left_out:
            with source.open("rb") as added:  # gzip files may be joined as they are
                shutil.copyfileobj(added, joined)
            return
        with pack_reproducible(joined) as packed:
            for line, utterance in _read_cuts(source):
                if utterance.language not in left_out:
                    packed.write(line)


def split_by_language(manifest: Path, folder: Path) -> dict[str, Path]:
    """Write a manifest for each language of a manifest, lines unchanged; return them by code."""
    parts: dict[str, io.BytesIO] = {}
    packers: dict[str, gzip.GzipFile] = {}
    for line, utterance in _read_cuts(manifest):
        if utterance.language not in parts:
            part = parts[utterance.language] = io.BytesIO()
            packers[utterance.language] = pack_reproducible(part)
        packers[utterance.language].write(line)
    check_languages(sorted(parts), str(manifest))
    manifests = {
        language: path_below(folder, f"{file_stem(language)}{SUFFIX}") for language in sorted(parts)
    }
    for language, path in manifests.items():
        packers[language].close()
        with atomic_path(path) as written:
            written.write_bytes(parts[language].getvalue())
    return manifests


def cut_line(utterance: Utterance) -> str:
    """Return a line of a Lhotse manifest (written out: Lhotse's own way is ten times slower).

    {"id": "ca-1", "start": 0, "duration": 4.2, "channel": 0, "supervisions": [{…,
    "text": "bon dia", "language": "ca", "speaker": "…"}], "recording": {…}, "type": "MonoCut"}
    """
    identity, language = quote(utterance.id), quote(utterance.language)
    recording_id = quote(utterance.recording_id) if utterance.recording_id else identity
    whole_s = utterance.num_samples / utterance.sampling_rate
    duration_s = utterance.duration_s
    speaker = f', "speaker": {quote(utterance.speaker)}' if utterance.speaker else ""
    channels = ", ".join(map(str, range(utterance.num_channels)))
    # Without any place it is for a Lhotse Shar, whose reader fills it in.
    kind = "shard" if utterance.audio.startswith(SHARD) else "file" if utterance.audio else "shar"
    source = quote(utterance.audio.removeprefix(SHARD))
    return (
        f'{{"id": {identity}, "start": {utterance.start_s!r}, "duration": {duration_s!r}, '
        f'"channel": 0, "supervisions": [{{"id": {identity}, "recording_id": {recording_id}, '
        f'"start": 0.0, "duration": {duration_s!r}, "channel": 0, '
        f'"text": {quote(utterance.text)}, "language": {language}{speaker}}}], '
        f'"recording": {{"id": {recording_id}, "sources": [{{"type": "{kind}", '
        f'"channels": [{channels}], "source": {source}}}], '
        f'"sampling_rate": {utterance.sampling_rate}, "num_samples": {utterance.num_samples}, '
        f'"duration": {whole_s!r}, "channel_ids": [{channels}]}}, "type": "MonoCut"}}\n'
    )


def parse_cut(cut: dict[str, Any]) -> Utterance | str:
    """Return the utterance of a cut that comes from elsewhere than a manifest, or what is wrong."""
    try:
        return _utterance_of(cut)
    except _NoUtterance as problem:
        return str(problem)


class _NoUtterance(Exception):  # noqa: N818  (a verdict on a line, told with its place)
    """Why a line cannot be used."""


def _read_cuts(path: Path) -> Iterator[tuple[bytes, Utterance]]:
    """Yield each line as it is, and what it says."""
    for number, line in enumerate(_read_lines(path), start=1):
        place = f"{path}, line {number}"
        try:
            utterance = _utterance_of(_parse(line))
        except _NoUtterance as problem:
            raise ArborvoxError(f"{place}: {problem}.") from None
        check_language(utterance.language, place)
        yield line, utterance


def _read_lines(path: Path) -> Iterator[bytes]:
    """Yield lines in bounded memory, however much a small gzip file unpacks to."""
    try:
        with open_unpacked(path) as file:
            number = 0
            while line := file.readline(MOST_LINE_BYTES + 1):
                number += 1
                if len(line) > MOST_LINE_BYTES:
                    raise ArborvoxError(
                        f"{path}, line {number}: longer than {MOST_LINE_BYTES:,} bytes, so no "
                        "Lhotse cut."
                    )
                yield line
    except FileNotFoundError:
        raise ArborvoxError(f"There is no manifest {path}; run `arborvox prepare` first.") from None
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise ArborvoxError(f"{path} is not a whole gzip file ({error}).") from None
    except OSError as error:
        raise ArborvoxError(f"{path} cannot be read: {error.strerror}.") from None


def _parse(line: bytes) -> dict[str, Any]:
    try:
        cut = json.loads(line.decode("utf-8"))
    except UnicodeDecodeError:
        raise _NoUtterance("not UTF-8 text") from None
    except (ValueError, RecursionError):  # bad JSON, numbers of thousands of digits, deep nesting
        raise _NoUtterance("not a Lhotse cut, as it is not valid JSON") from None
    return _mapping(cut, "not a Lhotse cut, as it is not a JSON object")


def _utterance_of(cut: dict[str, Any]) -> Utterance:
    """Pick an utterance out of a cut, or refuse what would be heard or read wrongly."""
    supervision, recording = _supervision_of(cut), _recording_of(cut)
    identity = _text(cut, "id", "the cut")
    recording_id = _text(recording, "id", "the recording")
    sampling_rate = _whole_number(recording, "sampling_rate", MOST_RATE_HZ)
    num_samples = _whole_number(recording, "num_samples", MOST_SAMPLES)
    whole_s = num_samples / sampling_rate
    start_s, duration_s = _span_of(cut, supervision)
    if start_s + duration_s > whole_s + TOLERANCE_S:
        raise _NoUtterance(
            f"the cut ends at {start_s + duration_s:g} s, its recording at {whole_s:g} s"
        )
    told = {key: value for key, value in supervision.items() if value not in (None, "")}
    return Utterance(
        id=identity,
        audio=_source_of(recording),
        language=_text({"language": NO_LANGUAGE, **told}, "language", "the supervision"),
        text=_text(supervision, "text", "the supervision", may_be_empty=True),
        sampling_rate=sampling_rate,
        num_samples=num_samples,
        num_channels=_num_channels(recording),
        speaker=_text(told, "speaker", "the supervision") if "speaker" in told else None,
        recording_id=None if recording_id == identity else recording_id,
        start_s=start_s,
        segment_s=None if (start_s, duration_s) == (0.0, whole_s) else duration_s,
    )


def _supervision_of(cut: dict[str, Any]) -> dict[str, Any]:
    """Return the one supervision of a cut of one stretch of one recording."""
    kind = cut.get("type", "MonoCut")
    if kind != "MonoCut" or "tracks" in cut:
        shown = "a mixture of tracks" if "tracks" in cut else _shown(kind)
        raise _NoUtterance(
            f"not a MonoCut but {shown}; save its audio with Lhotse's `save_audios` first"
        )
    supervisions = cut.get("supervisions")
    if not isinstance(supervisions, list) or not supervisions:
        raise _NoUtterance("not a Lhotse cut with a supervision, which has the transcript")
    if len(supervisions) > 1:
        raise _NoUtterance(
            f"{len(supervisions)} supervisions in one cut; Lhotse's "
            "`trim_to_supervisions(keep_overlapping=False)` makes a cut of each"
        )
    supervision = _mapping(supervisions[0], "not a Lhotse cut, as its supervision is no object")
    for channel in (cut.get("channel", 0), supervision.get("channel", 0)):
        if channel not in (0, [0]):
            raise _NoUtterance(
                f"channel {_shown(channel)}: a recording is heard as the mean of its channels; "
                "save the channel as a file of its own"
            )
    return supervision


def _recording_of(cut: dict[str, Any]) -> dict[str, Any]:
    """Return a cut's recording if its file can be read as it is."""
    recording = _mapping(cut.get("recording"), "not a Lhotse cut with a recording")
    if recording.get("transforms"):
        raise _NoUtterance(
            "the recording has transforms, such as another speed, that its file has not; save the "
            "audio with Lhotse's `save_audios` first"
        )
    return recording


def _source_of(recording: dict[str, Any]) -> str:
    """Return the path of a recording's file; commands are not run and addresses not fetched."""
    sources = recording.get("sources")
    if not isinstance(sources, list) or len(sources) != 1:
        raise _NoUtterance("the recording is not in one file (`sources` has to have one entry)")
    source = _mapping(sources[0], "the recording's source is no object")
    kind = source.get("type", "file")
    if kind not in ("file", "shard"):
        raise _NoUtterance(f"the recording's source is {_shown(kind)}; only files are read")
    path = _text(source, "source", "the recording's source")
    if "\0" in path:
        raise _NoUtterance("the recording's file name contains a zero byte")
    if kind == "shard":
        return f"{SHARD}{path}"
    if path.startswith(SHARD):
        raise _NoUtterance(f"the recording's file name begins with {SHARD}; rename the file")
    return path


def _num_channels(recording: dict[str, Any]) -> int:
    channels = recording.get("channel_ids") or [0]
    if not isinstance(channels, list):
        raise _NoUtterance("`channel_ids` of the recording is no list")
    return len(channels)


def _span_of(cut: dict[str, Any], supervision: dict[str, Any]) -> tuple[float, float]:
    """Return start and length in the recording of what the supervision is about."""
    start_s, duration_s = _seconds(cut, "start", 0.0), _seconds(cut, "duration")
    if start_s < 0 or duration_s < LEAST_SECONDS:
        raise _NoUtterance(f"a cut cannot start at {start_s:g} s and last {duration_s:g} s")
    begin_s = _seconds(supervision, "start", 0.0)  # from the start of the cut
    length_s = _seconds(supervision, "duration", duration_s)
    end_s = begin_s + length_s
    if begin_s < -TOLERANCE_S or length_s < LEAST_SECONDS or end_s > duration_s + TOLERANCE_S:
        raise _NoUtterance(
            f"the supervision ({begin_s:g} s to {end_s:g} s) does not lie in its cut "
            f"of {duration_s:g} s"
        )
    if begin_s > TOLERANCE_S or end_s < duration_s - TOLERANCE_S:
        return start_s + max(begin_s, 0.0), length_s
    return start_s, duration_s


def _seconds(fields: dict[str, Any], key: str, default: float | None = None) -> float:
    value = fields.get(key, default)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _NoUtterance(f"{key} is {_shown(value)}, not a number of seconds")
    if not abs(value) <= MOST_SECONDS:  # NaN is not, either
        raise _NoUtterance(f"{key} is {_shown(value)}, which no recording lasts")
    return float(value)


def _whole_number(fields: dict[str, Any], key: str, most: int) -> int:
    value = fields.get(key)
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= most:
        raise _NoUtterance(f"{key} of the recording is {_shown(value)}, not 1 to {most:,}")
    return value


def _text(fields: dict[str, Any], key: str, owner: str, *, may_be_empty: bool = False) -> str:
    value = fields.get(key)
    if not isinstance(value, str) or not (value or may_be_empty):
        raise _NoUtterance(f"not a Lhotse cut: the {key} of {owner} is {_shown(value)}, not a text")
    if _SURROGATE.search(value):
        raise _NoUtterance(f"the {key} of {owner} contains half a surrogate pair")
    return value


def _mapping(value: Any, problem: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise _NoUtterance(problem)
    return value


def _shown(value: Any) -> str:
    """Show a stranger's value briefly; what it is rather than what it holds where it is nested."""
    if value is None:
        return "missing"
    if isinstance(value, list | dict):
        return "a list" if isinstance(value, list) else "an object"
    return ascii(value)[:40]
