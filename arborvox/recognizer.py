"""The Python API: `arborvox.load("RUN").transcribe("x.wav").text`."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from arborvox import audio
from arborvox.decode.hypothesis import Hypothesis
from arborvox.decode.segments import SpeechSegment, cut_spans, split_at_pauses
from arborvox.decode.sound import CountedBlocks, Sound, sound_blocks
from arborvox.decode.transcript import Segment, Transcript
from arborvox.decode.voice_activity import VOICE_ACTIVITIES
from arborvox.decode.words import Word, cut_word
from arborvox.errors import ArborvoxError
from arborvox.runtime.manifest import is_export
from arborvox.vocabulary import PIECE_SPACE

# `arborvox-runtime` has this file too, without what a checkpoint needs: torch is imported where a
# checkpoint is loaded.
if TYPE_CHECKING:
    from arborvox.config import DecodeConfig
    from arborvox.decode.engine import Engine
    from arborvox.runtime.engine import ExportEngine


class UnusableRecordingError(ArborvoxError):
    """A recording cannot be read; the message names it."""


class Recognizer:
    """A trained model that writes down what recordings say."""

    def __init__(self, engine: "Engine | ExportEngine", max_segment_s: float) -> None:
        # Of an export it answers less than a run's: see `load_run`.
        self.engine: Any = engine
        self.max_segment_s = max_segment_s
        self._find_quiet = VOICE_ACTIVITIES[engine.config.vad]()

    def split(self, blocks: Iterable[audio.Samples]) -> Iterator[SpeechSegment]:
        """Cut blocks of samples at the model's rate at their pauses, as it is set to find them."""
        rate_s = self.engine.input.sampling_rate
        return split_at_pauses(blocks, rate_s, self.max_segment_s, self._find_quiet)

    def transcribe(self, sound: Sound, rate: int | None = None) -> Transcript:
        """Transcribe a recording of any length: a path, an open binary file, or samples and rate.

        Samples are an array (S,) or (S, channels) of int16 or floats, or an iterator of such
        blocks: `transcribe(samples, rate=48000)`. Memory does not grow with the length of a file.
        Raises ArborvoxError for what is no recording. Silence, and no samples at all, give "".
        """
        rate_s = self.engine.input.sampling_rate
        counted = CountedBlocks(sound_blocks(sound, rate, rate_s))
        segments: list[Segment] = []
        batch: list[SpeechSegment] = []
        with naming_the_recording(sound):
            for speech in self.split(counted):
                batch.append(speech)
                longest = max(len(waiting.samples) for waiting in batch)
                if longest * (len(batch) + 1) > self.engine.config.batch_s * rate_s:
                    segments += self.recognize(batch)
                    batch = []
            segments += self.recognize(batch)
        return Transcript(counted.num_samples / rate_s, tuple(segments))

    def stream(self, sound: Sound, rate: int | None = None) -> Iterator[Segment]:
        """Yield each segment as soon as it is finished; takes what `transcribe` takes.

        An iterator of blocks may be endless: a segment is cut at a pause, at the latest when it is
        as long as what the model was trained on.
        """
        rate_s = self.engine.input.sampling_rate
        with naming_the_recording(sound):
            blocks = sound_blocks(sound, rate, rate_s)
            for speech in self.split(blocks):
                yield from self.recognize([speech])

    def transcribe_spans(
        self, sound: Sound, spans: Sequence[tuple[float, float]], rate: int | None = None
    ) -> Transcript:
        """Transcribe chosen stretches, start and end in seconds; each becomes a segment.

        One that is longer than what the model was trained on is heard in parts, and written as one.
        """
        rate_s = self.engine.input.sampling_rate
        counted = CountedBlocks(sound_blocks(sound, rate, rate_s))
        found: dict[int, list[Segment]] = {}
        batch: list[tuple[int, SpeechSegment]] = []

        def finish() -> None:
            segments = self.recognize([speech for _, speech in batch])
            for (number, _), segment in zip(batch, segments, strict=True):
                found.setdefault(number, []).append(segment)
            batch.clear()

        with naming_the_recording(sound):
            for number, stretch in enumerate(cut_spans(counted, rate_s, spans)):
                for part in self.split([stretch.samples]):
                    batch.append(
                        (number, SpeechSegment(stretch.start_s + part.start_s, part.samples))
                    )
                longest = max((len(speech.samples) for _, speech in batch), default=0)
                if longest * (len(batch) + 1) > self.engine.config.batch_s * rate_s:
                    finish()
            finish()
            for _ in counted:  # to the end, so that its length is known
                pass
        whole = [_joined(span, found.get(n, [])) for n, span in enumerate(sorted(spans))]
        return Transcript(counted.num_samples / rate_s, tuple(whole))

    def recognize(self, batch: Sequence[SpeechSegment]) -> list[Segment]:
        """Recognize stretches of speech together, each as a segment."""
        found = self.engine.recognize([self.engine.features(speech.samples) for speech in batch])
        return [self.segment(*pair) for pair in zip(batch, found, strict=True)]

    def segment(self, speech: SpeechSegment, found: Hypothesis) -> Segment:
        """Write down what was found in a stretch of speech, with times in its recording."""
        tokenizer = self.engine.tokenizer
        length_s = len(speech.samples) / self.engine.input.sampling_rate
        return Segment(
            start_s=round(speech.start_s, 3),
            end_s=round(speech.start_s + length_s, 3),
            text=self._text(found),
            confidence=round(float(np.mean(found.confidences)), 4) if found.tokens else 0.0,
            words=tuple(self._words(speech.start_s, found)),
            language=tokenizer.language_of(found.tokens),
            units=tuple(self._units(speech.start_s, found)),
        )

    def _text(self, found: Hypothesis) -> str:
        if not any(found.unsure):
            return str(self.engine.tokenizer.decode(found.tokens)).strip()
        return " ".join(self._unit_text(found, place) for place in range(len(found.tokens)))

    def _unit_text(self, found: Hypothesis, place: int) -> str:
        """Return a token as it is written, or in brackets what is sure of it."""
        if found.unsure and found.unsure[place]:
            return f"[{found.unsure[place]}]"
        return str(self.engine.tokenizer.decode([found.tokens[place]])).strip()

    def _units(self, start_s: float, found: Hypothesis) -> Iterable[Word]:
        """Yield what was written, token by token."""
        times_s = found.times_s(self.engine.frame_s)
        for place in range(len(found.tokens)):
            text = self._unit_text(found, place)
            begin = end = None
            if times_s:
                begin, end = (round(start_s + time_s, 3) for time_s in times_s[place])
            if text:
                yield Word(text, begin, end, found.confidences[place])

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
            if tokenizer.unit == "phone":  # each is a word
                text = self._unit_text(found, group[0])
            units = []
            for place in group:
                begin = end = None
                if times_s:
                    begin, end = (round(start_s + time_s, 3) for time_s in times_s[place])
                units.append(
                    Word(self._unit_text(found, place), begin, end, found.confidences[place])
                )
            confidence = round(float(np.mean([unit.confidence for unit in units])), 4)
            yield from cut_word(Word(text, units[0].start_s, units[-1].end_s, confidence), units)


def _joined(span: tuple[float, float], parts: Sequence[Segment]) -> Segment:
    """Make one segment of the parts of a stretch."""
    return Segment(
        start_s=span[0],
        end_s=span[1],
        text=" ".join(part.text for part in parts if part.text),
        confidence=round(float(np.mean([part.confidence for part in parts])), 4) if parts else 0.0,
        words=tuple(word for part in parts for word in part.words),
        language=next((part.language for part in parts if part.language), None),
        units=tuple(unit for part in parts for unit in part.units),
    )


@contextmanager
def naming_the_recording(sound: Sound) -> Iterator[None]:
    """Say of which recording a problem is."""
    named = str(sound) if isinstance(sound, str | Path) else "The recording"
    try:
        yield
    except audio.AudioProblem as problem:
        raise UnusableRecordingError(f"{named}: {problem}.") from None
    except UnicodeError:  # a decoder that does not take a name which is not UTF-8
        raise UnusableRecordingError(
            f"{named}: this format cannot be read under a name that is not UTF-8; rename the file."
        ) from None


def load(run: str | Path, config: "DecodeConfig | None" = None, **options: Any) -> Recognizer:
    """Load a recognizer from a run or checkpoint folder, or from what `arborvox export` wrote.

    What `config` and `options` leave open is as the model's recipe was tuned. Options are keys of
    DecodeConfig and stand above it: `load("RUN", mode="joint", beam=5)`. device: "auto" (a GPU
    where there is one), "cpu", "cuda", "cuda:N" or "mps"; an export runs on the CPU.
    """
    asked = {} if config is None else {key: getattr(config, key) for key in config.model_fields_set}
    options = {**asked, **options}
    if is_export(Path(run)):
        from arborvox.runtime.engine import load_export

        engine = load_export(Path(run), options)
        return Recognizer(engine, engine.max_segment_s)
    try:
        from arborvox.config import DecodeConfig
        from arborvox.decode.engine import Engine
        from arborvox.model.checkpoint import load_checkpoint
    except ModuleNotFoundError as missing:
        raise ArborvoxError(
            f"{run} is no export, and to load a checkpoint the whole of Arborvox is needed: "
            f"{missing.name} is missing."
        ) from None
    config = DecodeConfig(**options)
    loaded = load_checkpoint(Path(run))
    # Longer stretches than it was trained on would be strange to the model.
    max_segment_s = loaded.recipe.train.max_duration_s
    return Recognizer(Engine(loaded, config), max_segment_s)


def load_run(run: str | Path, config: "DecodeConfig | None" = None) -> Recognizer:
    """Load a run or checkpoint for what an export cannot answer; one of those is refused."""
    if is_export(Path(run)):
        raise ArborvoxError(f"{run} is an export; give the run that it was made from.")
    return load(run, config)
