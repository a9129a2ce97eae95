"""`arborvox align`: words and units of a known text with their times, for ELAN, Praat and more."""

import itertools
import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from arborvox import audio
from arborvox.config import DecodeConfig
from arborvox.config.choices import AlignmentFormat
from arborvox.console import progress, say, warn
from arborvox.decode.alignment import MOST_TOKENS, Aligner, TokenSpan
from arborvox.decode.boundaries import BoundaryPlacer, Loudness
from arborvox.decode.finished import Finished
from arborvox.decode.kinship import kin_of, nearest_phones
from arborvox.decode.network import CtcScores
from arborvox.decode.segments import SpeechSegment, cut_spans
from arborvox.decode.sound import Sound, sound_blocks
from arborvox.decode.transcript import (
    Segment,
    TierLayout,
    Transcript,
    to_eaf,
    to_json,
    to_textgrid,
)
from arborvox.decode.words import Word, cut_text
from arborvox.digests import checksum_file
from arborvox.errors import ArborvoxError
from arborvox.files import clean_cell, path_below, read_bounded, write_text_atomic
from arborvox.manifest import Utterance, load_manifest
from arborvox.recognizer import Recognizer, load_run, naming_the_recording
from arborvox.shards import find_recording, recording_file
from arborvox.team import this_team
from arborvox.text import Normalizer
from arborvox.text.codes import check_language
from arborvox.tokens.tokenizer import Tokenizer
from arborvox.vocabulary import UNK_ID

MOST_TEXT_MIB = 64
MOST_WORDS = 5_000_000
# An utterance does not fit if fewer of its words are found, or its units are less likely (nats).
LEAST_FOUND = 0.5
LEAST_SCORE = -4.0
LAYOUT = TierLayout("text", ("words", "units"))
ENDINGS = {"textgrid": ".TextGrid", "eaf": ".eaf", "json": ".json", "ctm": ".ctm"}


@dataclass(frozen=True)
class Fit:
    """How well a line of a text fits what was said."""

    num_words: int
    num_found: int
    score: float  # mean log-probability of the units that were found; NaN if none was

    @property
    def is_good(self) -> bool:
        """Whether the times can be trusted."""
        return self.num_found >= LEAST_FOUND * self.num_words and self.score >= LEAST_SCORE


@dataclass(frozen=True)
class Alignment:
    """A text with times: a segment for each line of which anything was found."""

    transcript: Transcript
    fits: tuple[Fit, ...]  # by line


def align_text(
    recognizer: Recognizer,
    sound: Sound,
    lines: Sequence[str],
    *,
    language: str | None = None,
    exact: bool = False,
    shift_s: float = 0.0,
    rate: int | None = None,
) -> Alignment:
    """Find when the words of a text were said.

    `shift_s` moves what CTC alone tells, earlier if negative; edges at pauses are heard, not told.
    With `exact` the text is what was said: no word is passed over, however badly it fits.
    """
    tokenizer = recognizer.engine.tokenizer
    texts = [_words_of(line, tokenizer) for line in lines]
    if sum(map(len, texts)) > MOST_WORDS:
        raise ArborvoxError(f"The text has more than {MOST_WORDS:,} words; align it in parts.")
    written = _write(texts, tokenizer, language)
    known = [tokens for line in written for tokens in line if tokens]
    placer = BoundaryPlacer(recognizer.engine.frame_s, shift_s, kin_of(tokenizer))
    spans, duration_s = _find(recognizer, sound, known, rate, exact, placer)
    reached_s = duration_s
    segments, fits = [], []
    for words, tokens in zip(reversed(texts), reversed(written), strict=True):
        found = [spans.pop() if ids else () for ids in reversed(tokens)][::-1]
        fits.append(_fit_of(found))
        units: list[list[Word]] = []
        for ids, timed in zip(reversed(tokens), reversed(found), strict=True):
            units.append(_units_of(ids, timed, tokenizer, (0.0, reached_s)))
            reached_s = units[-1][0].start_s or 0.0 if units[-1] else reached_s
        segment = _segment_of(words, units[::-1])
        if segment is not None:
            segments.append(segment)
    return Alignment(Transcript(duration_s, tuple(segments[::-1])), tuple(fits[::-1]))


def align_recording(
    run: Path,
    source: Path,
    text: Path,
    config: DecodeConfig,
    *,
    kind: AlignmentFormat,
    language: str | None,
    exact: bool,
    shift_s: float,
) -> str:
    """Align a recording with a text file, a line an utterance; return the file to write."""
    lines = [line for line in read_bounded(text, MOST_TEXT_MIB).splitlines() if line.strip()]
    if not lines:
        raise ArborvoxError(f"{text} holds no text to align.")
    recognizer = load_run(run, config)
    found = align_text(recognizer, source, lines, language=language, exact=exact, shift_s=shift_s)
    for number, (line, fit) in enumerate(zip(lines, found.fits, strict=True), start=1):
        _tell_misfit(f"{text}, utterance {number} ({line.strip()[:40]})", fit)
    num_found = sum(fit.num_found for fit in found.fits)
    say(f"{num_found:,} of {sum(fit.num_words for fit in found.fits):,} words were found.")
    return _render(found.transcript, kind, source.stem, source)


def align_manifest(
    run: Path,
    manifest: Path,
    config: DecodeConfig,
    *,
    kind: AlignmentFormat,
    out: Path,
    shift_s: float,
) -> int:
    """Align every utterance of a manifest with its text, into a folder; return how many failed.

    The texts are what was said; a score tells where that is not so. Beside a file for each
    utterance (or alignment.ctm for all) stands fit.tsv: its words, those found, and its score.
    """
    utterances = load_manifest(manifest)
    recognizer = load_run(run, config)
    team = this_team()
    asked = [checksum_file(manifest), kind, shift_s]
    finished = Finished(out, recognizer.engine, asked, team)
    taken: set[str] = set()
    names = {utterance.id: _file_name(utterance.id, taken) for utterance in utterances}
    by_audio: dict[str, list[Utterance]] = {}
    for utterance in utterances:
        by_audio.setdefault(utterance.audio, []).append(utterance)
    recordings = list(by_audio.values())
    for cuts in recordings:
        cuts.sort(key=lambda u: (u.start_s, u.start_s + u.duration_s))
    usual_order = [utterance.id for cuts in recordings for utterance in cuts]
    left = [cuts for cuts in recordings if any(cut.id not in finished.done for cut in cuts)]
    if team.world > 1:  # the longest first, so that nobody waits for the last one
        left.sort(key=lambda cuts: -sum(cut.duration_s for cut in cuts))
    num_failed = drawn = 0
    with progress("aligning", len(left)) as advance:
        for number in team.draw(len(left)):
            cuts = left[number]
            try:
                for utterance, speech in zip(cuts, _cut(recognizer, cuts), strict=True):
                    if utterance.id in finished.done:
                        continue
                    found = align_text(
                        recognizer,
                        speech.samples,
                        [utterance.text],
                        exact=True,
                        shift_s=shift_s,
                        rate=recognizer.engine.input.sampling_rate,
                    )
                    fit = found.fits[0]
                    _tell_misfit(utterance.id, fit)
                    name = names[utterance.id]
                    text = _render(found.transcript, kind, name, None)
                    if kind != "ctm":
                        write_text_atomic(path_below(out, f"{name}{ENDINGS[kind]}"), text)
                    finished.add(
                        utterance.id,
                        row=f"{fit.num_words}\t{fit.num_found}\t{fit.score:.3f}",
                        text=text if kind == "ctm" else "",
                    )
            except audio.AudioProblem as problem:
                warn(f"{cuts[0].audio}: {problem}.")
                num_failed += len(cuts)
            advance(number + 1 - drawn)
            drawn = number + 1
    noted = finished.gather(usual_order)
    if team.first:
        if kind == "ctm":
            write_text_atomic(out / "alignment.ctm", "".join(str(note["text"]) for note in noted))
        rows = [f"{clean_cell(note['id'])}\t{note['row']}\n" for note in noted]
        write_text_atomic(out / "fit.tsv", "".join(["id\twords\tfound\tscore\n", *rows]))
        say(f"wrote {len(noted):,} alignments and fit.tsv in {out}")
    finished.forget()
    return team.sum(num_failed)


def _file_name(identity: str, taken: set[str]) -> str:
    """Return a name for an utterance's file that no other has."""
    stem = re.sub(r"[^\w.@+ -]", "_", identity)[:100].strip(" .") or "utterance"
    names = (stem if number == 1 else f"{stem}-{number}" for number in itertools.count(1))
    name = next(name for name in names if name not in taken)
    taken.add(name)
    return name


def _cut(recognizer: Recognizer, cuts: Sequence[Utterance]) -> Iterator[SpeechSegment]:
    """Yield the speech of utterances of one recording."""
    rate = recognizer.engine.input.sampling_rate
    spans = [(cut.start_s, cut.start_s + cut.duration_s) for cut in cuts]
    with recording_file(find_recording(cuts[0].audio)) as path:
        yield from cut_spans(audio.stream(path, rate), rate, spans)


def _tell_misfit(name: str, fit: Fit) -> None:
    if not fit.is_good:
        score = "none" if math.isnan(fit.score) else f"{fit.score:.2f}"
        warn(f"{name} does not fit: {fit.num_found} of {fit.num_words} words, score {score}.")


def _words_of(line: str, tokenizer: Tokenizer) -> list[str]:
    """Cut a line into what gets times of its own."""
    words = line.split()
    if tokenizer.unit != "char":
        return words
    return [piece for word in words for piece in cut_text(word)]


def _write(
    texts: Sequence[Sequence[str]], tokenizer: Tokenizer, language: str | None
) -> list[list[list[int]]]:
    """Return the tokens of each word as the model writes it; none where it cannot."""
    if language is not None:
        check_language(language, "--language")
    normalize = None if language is None or tokenizer.unit == "phone" else Normalizer(language)
    known: dict[str, list[int]] = {}
    stand_ins: dict[str, str] = {}
    if tokenizer.unit == "phone":
        strange = {word for words in texts for word in words if UNK_ID in tokenizer.encode(word)}
        stand_ins = nearest_phones(sorted(strange), tokenizer)
        pairs = ", ".join(f"{phone} ({other})" for phone, other in stand_ins.items())
        if pairs:
            say(f"phones that the model does not have are sought as others: {pairs}")

    def tokens_of(word: str) -> list[int]:
        if word not in known:
            text, problem = (word, "") if normalize is None else normalize(word)
            tokens = [] if problem else tokenizer.encode(stand_ins.get(text, text))
            is_whole = tokens and UNK_ID not in tokens and len(tokens) <= MOST_TOKENS
            known[word] = tokens if is_whole else []
        return known[word]

    return [[tokens_of(word) for word in words] for words in texts]


def _find(
    recognizer: Recognizer,
    sound: Sound,
    words: Sequence[Sequence[int]],
    rate: int | None,
    exact: bool,
    placer: BoundaryPlacer,
) -> tuple[list[tuple[TokenSpan, ...]], float]:
    """Return the times of the words' tokens, and the length of the recording."""
    engine = recognizer.engine
    if not engine.network.has_ctc:
        raise ArborvoxError(f"{engine.folder} has no CTC branch, and only that tells times.")
    wanted_rate = engine.input.sampling_rate
    tags = range(2, engine.tokenizer.num_special)
    spaces = [token for token, unit in enumerate(engine.tokenizer.units) if unit == " "]
    aligner = Aligner(words, [*tags, *spaces], engine.frame_s, exact=exact, placer=placer)
    num_samples = 0
    batch: list[SpeechSegment] = []
    scores: CtcScores | None = None

    def counted() -> Iterator[audio.Samples]:
        nonlocal num_samples
        for block in sound_blocks(sound, rate, wanted_rate):
            num_samples += len(block)
            yield block

    def finish() -> None:
        nonlocal scores
        if batch:
            scores, lens = engine.ctc_scores([engine.features(speech.samples) for speech in batch])
            for b, (speech, num_frames) in enumerate(zip(batch, lens, strict=True)):
                loudness = Loudness(speech.samples, wanted_rate, speech.start_s)
                aligner.add(scores, b, num_frames, speech.start_s, loudness)
            batch.clear()

    with naming_the_recording(sound):
        for speech in recognizer.split(counted()):
            batch.append(speech)
            longest = max(len(waiting.samples) for waiting in batch)
            if longest * (len(batch) + 1) > engine.config.batch_s * wanted_rate:
                finish()
        finish()
    return aligner.finish(scores), num_samples / wanted_rate


def _fit_of(found: Sequence[tuple[TokenSpan, ...]]) -> Fit:
    scores = [span.log_prob for spans in found for span in spans]
    score = float(np.mean(scores)) if scores else math.nan
    return Fit(len(found), sum(bool(spans) for spans in found), score)


def _units_of(
    ids: Sequence[int],
    spans: Sequence[TokenSpan],
    tokenizer: Tokenizer,
    room_s: tuple[float, float],
) -> list[Word]:
    """Return the units of a word with their times, within what there is room for."""
    units = []
    for token, span in zip(ids, spans, strict=bool(spans)):
        begin, end = (
            round(min(max(at_s, room_s[0]), room_s[1]), 3) for at_s in (span.start_s, span.end_s)
        )
        text = tokenizer.decode([token]).strip()
        units.append(Word(text, begin, end, round(math.exp(span.log_prob), 4)))
    return units


def _segment_of(words: Sequence[str], units: Sequence[Sequence[Word]]) -> Segment | None:
    """Make a segment of a line; None if none of its words was found."""
    timed = [
        Word(
            word,
            parts[0].start_s if parts else None,
            parts[-1].end_s if parts else None,
            round(float(np.mean([part.confidence for part in parts])), 4) if parts else 0.0,
        )
        for word, parts in zip(words, units, strict=True)
    ]
    found = [unit for parts in units for unit in parts]
    if not found:
        return None
    return Segment(
        start_s=found[0].start_s or 0.0,
        end_s=found[-1].end_s or 0.0,
        text=" ".join(words),
        confidence=round(float(np.mean([unit.confidence for unit in found])), 4),
        words=tuple(timed),
        units=tuple(found),
    )


def _render(transcript: Transcript, kind: AlignmentFormat, name: str, media: Path | None) -> str:
    return WRITERS[kind](transcript, name, media)


def _to_ctm(transcript: Transcript, name: str, media: Path | None) -> str:
    """Write `recording 1 start length word confidence` for each word that was found."""
    recording = "_".join(name.split()) or "recording"
    return "".join(
        f"{recording} 1 {word.start_s:.3f} {word.end_s - word.start_s:.3f} {word.text} "
        f"{word.confidence:.4f}\n"
        for segment in transcript.segments
        for word in segment.words
        if word.start_s is not None and word.end_s is not None
    )


WRITERS: dict[AlignmentFormat, Callable[[Transcript, str, Path | None], str]] = {
    "textgrid": lambda transcript, name, media: to_textgrid(transcript, LAYOUT),
    "eaf": lambda transcript, name, media: to_eaf(transcript, LAYOUT, media),
    "json": lambda transcript, name, media: to_json(transcript, with_units=True),
    "ctm": _to_ctm,
}
