"""The Python API: `arborvox.load("RUN").transcribe("x.wav").text`, and many files at once."""

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from arborvox import audio
from arborvox.console import progress, say, warn
from arborvox.decode.engine import DecodeConfig, Engine
from arborvox.decode.hypothesis import Hypothesis
from arborvox.decode.segments import SpeechSegment, split_at_pauses
from arborvox.decode.transcript import WRITERS, Segment, Transcript
from arborvox.decode.words import Word, cut_word
from arborvox.errors import ArborvoxError
from arborvox.files import write_text_atomic
from arborvox.model.checkpoint import load_checkpoint
from arborvox.tokens.segmentation import PIECE_SPACE

BLOCK_S = 30.0


class UnusableRecordingError(ArborvoxError):
    """A recording cannot be read; the message names it."""


class Recognizer:
    """A trained model that writes down what recordings say."""

    def __init__(self, engine: Engine, max_segment_s: float) -> None:
        self.engine = engine
        self.max_segment_s = max_segment_s

    def transcribe(self, path: str | Path) -> Transcript:
        """Transcribe a recording of any format and length; memory does not grow with the length.

        Raises ArborvoxError for what is no recording. Silence, and no samples at all, give "".
        """
        try:
            return self._transcribe(Path(path))
        except audio.AudioProblem as problem:
            raise UnusableRecordingError(f"{path}: {problem}.") from None

    def _transcribe(self, path: Path) -> Transcript:
        rate = self.engine.input.sampling_rate
        num_samples = 0

        def blocks() -> Iterable[audio.Samples]:
            nonlocal num_samples
            for block in audio.stream(path, rate, BLOCK_S):
                num_samples += len(block)
                yield block

        segments: list[Segment] = []
        batch: list[SpeechSegment] = []
        for speech in split_at_pauses(blocks(), rate, self.max_segment_s):
            batch.append(speech)
            longest = max(len(waiting.samples) for waiting in batch)
            if longest * (len(batch) + 1) > self.engine.config.batch_s * rate:
                segments += self._recognise(batch)
                batch = []
        segments += self._recognise(batch)
        return Transcript(num_samples / rate, tuple(segments))

    def _recognise(self, batch: Sequence[SpeechSegment]) -> list[Segment]:
        found = self.engine.recognise([self.engine.features(speech.samples) for speech in batch])
        return [self._segment(*pair) for pair in zip(batch, found, strict=True)]

    def _segment(self, speech: SpeechSegment, found: Hypothesis) -> Segment:
        tokenizer = self.engine.tokenizer
        length_s = len(speech.samples) / self.engine.input.sampling_rate
        return Segment(
            start_s=round(speech.start_s, 3),
            end_s=round(speech.start_s + length_s, 3),
            text=tokenizer.decode(found.tokens).strip(),
            confidence=round(float(np.mean(found.confidences)), 4) if found.tokens else 0.0,
            words=tuple(self._words(speech.start_s, found)),
            language=tokenizer.language_of(found.tokens),
        )

    def _words(self, start_s: float, found: Hypothesis) -> Iterable[Word]:
        """Yield stretches of tokens between spaces, cut where a script has none, or every phone."""
        tokenizer = self.engine.tokenizer
        groups: list[list[int]] = [[]]  # places of tokens
        for place, token in enumerate(found.tokens):
            unit = tokenizer.units[token]
            if tokenizer.unit == "phone" or unit == " " or unit.startswith(PIECE_SPACE):
                groups.append([])
            if unit != " ":
                groups[-1].append(place)
        times_s = found.times_s(self.engine.frame_s)
        for group in groups:
            text = tokenizer.decode([found.tokens[place] for place in group]).strip()
            if not text:
                continue
            units = []
            for place in group:
                begin = end = None
                if times_s:
                    begin, end = (round(start_s + time_s, 3) for time_s in times_s[place])
                unit = tokenizer.decode([found.tokens[place]]).strip()
                units.append(Word(unit, begin, end, found.confidences[place]))
            confidence = round(float(np.mean([unit.confidence for unit in units])), 4)
            yield from cut_word(Word(text, units[0].start_s, units[-1].end_s, confidence), units)


def load(run: str | Path, config: DecodeConfig | None = None) -> Recognizer:
    """Load a recogniser from a run or checkpoint folder."""
    loaded = load_checkpoint(Path(run))
    # Longer stretches than it was trained on would be strange to the model.
    max_segment_s = loaded.recipe.train.max_duration_s
    return Recognizer(Engine(loaded, config or DecodeConfig()), max_segment_s)


def transcribe_files(
    run: Path, files: Sequence[Path], config: DecodeConfig, *, kind: str, out: Path | None
) -> int:
    """Transcribe files to a folder, or to standard output; return how many failed."""
    targets = _targets(files, kind, out)
    recognizer = load(run, config)
    num_failed = 0
    with progress("transcribing", len(files)) as advance:
        for file, target in zip(files, targets, strict=True):
            try:
                transcript = recognizer.transcribe(file)
            except UnusableRecordingError as error:
                warn(str(error))
                num_failed += 1
            else:
                if not transcript.duration_s:
                    warn(f"{file}: no samples.")
                _deliver(WRITERS[kind](transcript), file, target, alone=len(files) == 1)
            advance()
    if num_failed:
        warn(f"{num_failed} of {len(files)} files could not be transcribed.")
    return num_failed


def _targets(files: Sequence[Path], kind: str, out: Path | None) -> list[Path | None]:
    """Name the file that each transcript goes to; None is standard output."""
    if kind not in WRITERS:
        raise ArborvoxError(f"Unknown format '{kind}'; there are: {', '.join(WRITERS)}.")
    if out is None:
        return [None] * len(files)
    targets: dict[Path, Path] = {}
    for file in files:
        target = out / f"{file.stem}.{kind}"
        if target in targets:
            raise ArborvoxError(
                f"{targets[target]} and {file} would both be written to {target}; "
                f"transcribe them into two folders."
            )
        targets[target] = file
    return list(targets)


def _deliver(text: str, file: Path, target: Path | None, *, alone: bool) -> None:
    if target is not None:
        write_text_atomic(target, text)
        say(f"wrote {target}")
        return
    # Not through Rich, which would fold lines and read brackets as markup.
    print(text if alone else f"{file}:\n{text}", end="")
