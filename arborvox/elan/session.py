"""One run of the extension: parameters as XML on standard input, progress on standard output.

<PARAM><param name="source">/tapes/tape 1.wav</param></PARAM>
PROGRESS: 50% 12:30 of 25:00
RESULT: DONE.
"""

import locale
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO, cast

from arborvox import audio
from arborvox.annotations.safe_xml import walk_bytes
from arborvox.annotations.tier_file import read_tier_file, write_tier_file
from arborvox.config import DecodeConfig
from arborvox.config.choices import DependentTier, VoiceActivity, values_of
from arborvox.console import tell_duration
from arborvox.decode.transcript import TierLayout, Transcript, transcript_tiers
from arborvox.elan.plugin import SEGMENTS, SETTINGS, SOURCE, TEXT, TIER_NAME, VAD
from arborvox.errors import ArborvoxError, harmless
from arborvox.files import atomic_path, read_json
from arborvox.recognizer import Recognizer, load_run, naming_the_recording

MOST_BYTES = 1 << 20  # of parameters: a few paths
LOADED, HEARD = 5, 95  # percent, when the model is there and when all has been heard
_OUTPUTS = (TEXT, *values_of(DependentTier))


def answer_elan(folder: Path, stdin: BinaryIO, stdout: BinaryIO) -> int:
    """Do what ELAN asks for and tell it how that went; returns the exit code."""

    def tell(line: str) -> None:
        stdout.write(f"{line}\n".encode())
        stdout.flush()

    def progress(percent: int, message: str) -> None:
        tell(f"PROGRESS: {percent}% {message}")

    try:
        _Session(folder, _read_parameters(stdin), progress).run()
    except ArborvoxError as error:
        tell(f"ERROR: {harmless(str(error))}")
    except OSError as error:
        named = f"{error.filename}: " if error.filename else ""
        tell(f"ERROR: {harmless(f'{named}{error.strerror or error}')}.")
    except Exception as error:
        tell(f"ERROR: a fault of arborvox itself ({harmless(f'{type(error).__name__}: {error}')}).")
    else:
        tell("RESULT: DONE.")
        return 0
    tell("RESULT: FAILED.")
    return 2


class _Session:
    """What was asked for, checked before the model is loaded."""

    def __init__(
        self, folder: Path, asked: dict[str, str], progress: Callable[[int, str], None]
    ) -> None:
        self._progress = progress
        if not asked.get(SOURCE):
            raise ArborvoxError("No recording was chosen.")
        if not asked.get(TEXT):
            raise ArborvoxError("No file was named for the new tier.")
        self._recording = _path(asked[SOURCE])
        self._targets = {name: _path(asked[name]) for name in _OUTPUTS if asked.get(name)}
        parts = tuple(part for part in values_of(DependentTier) if part in self._targets)
        name = asked.get(TIER_NAME) or "arborvox"
        self._layout = TierLayout(name, cast("tuple[DependentTier, ...]", parts))
        self._spans: list[tuple[float, float]] | None = None
        if asked.get(SEGMENTS):
            marked = read_tier_file(_path(asked[SEGMENTS]))
            self._spans = [(a.start_s, a.end_s) for a in marked if a.start_s < a.end_s]
            if not self._spans:
                raise ArborvoxError("The tier that was chosen marks nothing.")
        settings = read_json(folder / SETTINGS)
        if not isinstance(settings, dict) or not isinstance(settings.get("run"), str):
            raise ArborvoxError(f"{folder / SETTINGS} names no run; make the extension anew.")
        decode = dict(settings.get("decode") or {})
        if asked.get(VAD):
            if asked[VAD] not in values_of(VoiceActivity):
                raise ArborvoxError(f"{VAD}: there is no {asked[VAD][:40]!r}.")
            decode[VAD] = asked[VAD]
        self._run, self._config = Path(settings["run"]), DecodeConfig(**decode)

    def run(self) -> None:
        """Load, listen and write; the files appear together at the end."""
        self._progress(0, "loading the model")
        recognizer = load_run(self._run, self._config)
        transcript = self._hear(recognizer)
        self._progress(HEARD, "writing the tiers")
        tiers = transcript_tiers(transcript, self._layout)
        for target, tier in zip(self._targets.values(), tiers, strict=True):
            with atomic_path(target) as part:
                part.write_bytes(write_tier_file(tier.name, tier.annotations))

    def _hear(self, recognizer: Recognizer) -> Transcript:
        rate = recognizer.engine.input.sampling_rate
        if self._spans is None:
            return recognizer.transcribe(self._watched(rate), rate)
        return recognizer.transcribe_spans(self._watched(rate), self._spans, rate)

    def _watched(self, rate: int) -> Iterator[audio.Samples]:
        """Yield the recording's samples, and say how much has passed."""
        heard_s = 0.0
        with naming_the_recording(self._recording):
            length_s = max(audio.read_info(self._recording).duration_s, 1e-3)
            for block in audio.stream(self._recording, rate):
                share = min(heard_s / length_s, 1.0)
                percent = LOADED + int(share * (HEARD - LOADED))
                self._progress(percent, f"{tell_duration(heard_s)} of {tell_duration(length_s)}")
                yield block
                heard_s += len(block) / rate


class _Parameters:
    """Takes names and values of <param> elements from the stream."""

    def __init__(self) -> None:
        self.found: dict[str, str] = {}
        self._name: str | None = None

    def encoding(self, name: str) -> None:
        pass

    def start(self, tag: str, attributes: dict[str, str], at: int) -> None:
        if tag == "param":
            self._name = attributes.get("name", "")
            self.found[self._name] = ""

    def end(self, tag: str, at: int) -> None:
        if tag == "param" and self._name is not None:
            self.found[self._name] = self.found[self._name].strip()
            self._name = None

    def text(self, data: str) -> None:
        if self._name is not None:
            self.found[self._name] += data


def _read_parameters(stdin: BinaryIO) -> dict[str, str]:
    data = stdin.read(MOST_BYTES + 1)
    if len(data) > MOST_BYTES:
        raise ArborvoxError("Standard input has more than the parameters of a recognizer.")
    try:
        data.decode()
    except UnicodeDecodeError:
        # It says UTF-8, but some versions of ELAN write in the computer's own encoding.
        data = data.decode(locale.getpreferredencoding(False), "replace").encode()
    reader = _Parameters()
    walk_bytes(data, "standard input", reader)
    return reader.found


def _path(told: str) -> Path:
    if "\0" in told:
        raise ArborvoxError("A file's name has a zero in it.")
    return Path(told)
