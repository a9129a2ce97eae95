"""A speech corpus made on the spot: espeak-ng reads sentences, in the layout of Common Voice."""

import dataclasses
import hashlib
import multiprocessing
import random
import signal
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib.metadata import version
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

import numpy as np
import soundfile
import soxr

from arborvox.console import progress, say, warn
from arborvox.corpora.espeak import (
    ESPEAK_RATE_HZ,
    Espeak,
    SpeechError,
    Voice,
    available_languages,
)
from arborvox.corpora.sentences import compose_sentences, cut_pieces, read_sentences
from arborvox.errors import ArborvoxError
from arborvox.files import path_below, read_json, write_json_atomic, write_text_atomic

RECORD = "synthetic.json"
TABLE = "validated.tsv"
PHONES = "phones.tsv"
TABLE_COLUMNS = (
    "client_id",
    "path",
    "sentence",
    "up_votes",
    "down_votes",
    "age",
    "gender",
    "accent",
    "locale",
    "segment",
)
# Variants of espeak-ng that sound like people: no robots, no whispers, no overdriven ones.
VARIANTS = {
    "female": (
        *("f1", "f2", "f3", "f4", "f5", "Annie", "Andrea"),
        *("aunty", "belinda", "linda", "grandma", "Alicia", "steph", "anika"),
    ),
    "male": (
        *("m1", "m2", "m3", "m4", "m5", "m6", "m7", "m8", "Andy"),
        *("Lee", "Denis", "Diogo", "michel", "miguel", "sandro", "travis", "victor"),
    ),
}
RATES_WPM = range(130, 191)
PITCHES = range(35, 66)
PITCH_RANGES = range(35, 76)
FORMAT = 2  # raised when the same options give other files


@dataclass(frozen=True)
class SyntheticOptions:
    """What decides every byte of a synthetic corpus; `text` is a folder of `<lang>.txt`."""

    languages: tuple[str, ...]
    sentences_per_language: int = 200
    speakers: int = 12
    text: Path | None = None
    seed: int = 0
    sampling_rate: int = 16_000
    max_words: int = 14
    names: tuple[int, ...] = (2, 3, 4)  # in a composed sentence, without `text`
    words: tuple[int, ...] | None = None  # pieces of sentences of `text`, not whole ones


@dataclass(frozen=True)
class Speaker:
    """One synthetic speaker of one language."""

    client_id: str
    gender: str
    voice: Voice


@dataclass(frozen=True)
class Prompt:
    """A sentence to be spoken, by whom, and the name of its clip."""

    path: str
    sentence: str
    speaker: Speaker

    @property
    def language(self) -> str:
        return self.speaker.voice.language


@dataclass(frozen=True)
class Outcome:
    """What became of a prompt: its phones, or the problem that kept it from being spoken."""

    prompt: Prompt
    phones: tuple[str, ...]
    problem: str


def synthesize(out: Path, options: SyntheticOptions, jobs: int) -> Path:
    """Write a corpus in the layout of Common Voice, with phones; a killed run can be repeated."""
    _check(options, jobs)
    out = out.resolve()
    prompts = {language: _prompts(language, options) for language in options.languages}
    _claim(out, _record(options, prompts))
    missing = [language for language in prompts if not _is_complete(path_below(out, language))]
    for language in missing:
        folder = path_below(out, language)
        _sweep(folder, TABLE, PHONES)
        (folder / TABLE).unlink(missing_ok=True)
        (folder / "clips").mkdir(parents=True, exist_ok=True)
    todo = [prompt for language in missing for prompt in prompts[language]]
    outcomes: dict[str, Outcome] = {}
    waiting = {language: len(prompts[language]) for language in missing}
    with progress("speaking", len(todo)) as advance:
        for outcome in _speak_all(todo, out, options.sampling_rate, jobs):
            outcomes[outcome.prompt.path] = outcome
            language = outcome.prompt.language
            waiting[language] -= 1
            if waiting[language] == 0:
                _publish(path_below(out, language), [outcomes[p.path] for p in prompts[language]])
            advance()
    say(f"wrote {out} ({sum(map(len, prompts.values()))} sentences in {len(prompts)} languages)")
    return out


def make_speakers(language: str, count: int, seed: int) -> list[Speaker]:
    """Design speakers: the variants are the same in each language, the settings are their own."""
    order = random.Random(f"{seed}/variants")
    pools = {gender: order.sample(names, len(names)) for gender, names in VARIANTS.items()}
    speakers = []
    for number in range(count):
        gender = ("female", "male")[number % 2]
        identity = f"{seed}/{language}/speaker/{number}"
        rng = random.Random(identity)
        voice = Voice(
            language=language,
            variant=pools[gender][number // 2 % len(pools[gender])],
            rate_wpm=rng.choice(RATES_WPM),
            pitch=rng.choice(PITCHES),
            pitch_range=rng.choice(PITCH_RANGES),
        )
        client_id = hashlib.sha512(f"arborvox synthetic {identity}".encode()).hexdigest()
        speakers.append(Speaker(client_id, gender, voice))
    return speakers


def _check(options: SyntheticOptions, jobs: int) -> None:
    for name, value in (
        ("sentences", options.sentences_per_language),
        ("speakers", options.speakers),
        ("languages", len(options.languages)),
        ("jobs", jobs),
    ):
        if value < 1:
            raise ArborvoxError(f"A synthetic corpus needs at least one of: {name}.")
    if options.sampling_rate < 8_000:
        raise ArborvoxError(f"A sampling rate of {options.sampling_rate} Hz is too low for speech.")
    known = available_languages()
    for language in options.languages:
        if language not in known:
            raise ArborvoxError(
                f"espeak-ng has no voice for '{language}'; it speaks {', '.join(sorted(known))}."
            )


def _prompts(language: str, options: SyntheticOptions) -> list[Prompt]:
    """Choose the sentences of a language and share them out among its speakers."""
    count = options.sentences_per_language
    if options.text is None:
        sentences = compose_sentences(
            language, count, options.max_words, options.seed, options.names
        )
    else:
        path = path_below(options.text, f"{language}.txt")
        sentences = read_sentences(path, options.max_words)
        if len(sentences) < count:
            warn(
                f"{path} has {len(sentences)} usable sentences, not {count}: all of them are used."
            )
        rng = random.Random(f"{options.seed}/{language}/text")
        sentences = rng.sample(sentences, min(count, len(sentences)))
        if options.words is not None:
            pieces = cut_pieces(sentences, options.words, rng)
            if len(pieces) < len(sentences):
                warn(
                    f"{path}: {len(pieces)} pieces, cut out of {len(sentences)} sentences; the "
                    "others came twice or have no letter."
                )
            sentences = pieces
    speakers = make_speakers(language, options.speakers, options.seed)
    return [
        Prompt(f"synthetic_{language}_{n:06d}.flac", sentence, speakers[n % len(speakers)])
        for n, sentence in enumerate(sentences)
    ]


def _record(options: SyntheticOptions, prompts: dict[str, list[Prompt]]) -> dict[str, Any]:
    """All that is needed to make the same corpus again, and to notice that it would be another."""
    settings = dataclasses.asdict(options)
    settings["languages"] = list(options.languages)
    settings["names"] = list(options.names)
    pieces = settings.pop("words")
    if pieces is not None:  # unnamed otherwise, as in corpora from before there were pieces
        settings["words"] = list(pieces)
    settings["text"] = "CLDR names" if options.text is None else "own sentences"
    packages = ["espeakng-loader", "soundfile", "soxr"] + ["babel"] * (options.text is None)
    return {
        "format": FORMAT,
        "options": settings,
        "versions": {name: version(name) for name in packages},
        "sentences_sha256": {
            language: hashlib.sha256("\n".join(p.sentence for p in chosen).encode()).hexdigest()
            for language, chosen in prompts.items()
        },
        "speakers": {
            language: [
                dataclasses.asdict(speaker)
                for speaker in make_speakers(language, options.speakers, options.seed)
            ]
            for language in prompts
        },
    }


def _claim(out: Path, record: dict[str, Any]) -> None:
    """Take a new folder, or one begun with the same options; never touch any other."""
    path = out / RECORD
    _sweep(out, RECORD)
    if not path.exists():
        if out.exists() and (not out.is_dir() or any(out.iterdir())):
            raise ArborvoxError(f"{out} holds something else; name a new or empty folder.")
        write_json_atomic(path, record)
        return
    begun = read_json(path)
    differing = [
        key for key in record if not isinstance(begun, dict) or begun.get(key) != record[key]
    ]
    if differing:
        raise ArborvoxError(
            f"{out} holds a synthetic corpus with other {' and '.join(differing)} (see {RECORD}); "
            "name another folder, or delete this one."
        )


def _sweep(folder: Path, *names: str) -> None:
    """Remove what a killed run left of files that never got their final names."""
    for name in names:
        for part in folder.glob(f".{name}.*.part"):
            part.unlink()


def _is_complete(folder: Path) -> bool:
    """Whether a language was published and all its clips are still there."""
    if not (folder / TABLE).exists() or not (folder / PHONES).exists():
        return False
    rows = (folder / TABLE).read_text(encoding="utf-8").split("\n")[1:-1]
    clips = [cells[1] for row in rows if len(cells := row.split("\t")) > 1]
    return len(clips) == len(rows) and all(path_below(folder, "clips", c).exists() for c in clips)


def _publish(folder: Path, outcomes: list[Outcome]) -> None:
    """Write the tables of a language whose clips are all there; the one that counts comes last."""
    spoken = [outcome for outcome in outcomes if not outcome.problem]
    for outcome in outcomes:
        if outcome.problem:
            warn(f"{folder.name}: left out '{outcome.prompt.sentence}': {outcome.problem}")
    if not spoken:
        raise ArborvoxError(f"espeak-ng could not speak any sentence of '{folder.name}'.")
    phones = ((outcome.prompt.path, " ".join(outcome.phones)) for outcome in spoken)
    _write_tsv(folder / PHONES, [("path", "phones"), *phones])
    _write_tsv(folder / TABLE, [TABLE_COLUMNS, *(_table_row(o.prompt) for o in spoken)])


def _table_row(prompt: Prompt) -> tuple[str, ...]:
    speaker = prompt.speaker
    votes, unknown = ("2", "0"), ""
    return (
        *(speaker.client_id, prompt.path, prompt.sentence, *votes),
        *(unknown, speaker.gender, unknown, prompt.language, unknown),
    )


def _write_tsv(path: Path, rows: Iterable[tuple[str, ...]]) -> None:
    write_text_atomic(path, "".join("\t".join(row) + "\n" for row in rows))


def _speak_all(
    prompts: list[Prompt], out: Path, sampling_rate: int, jobs: int
) -> Iterator[Outcome]:
    """Speak in `jobs` processes, an equal share each; outcomes come as they are ready."""
    context = multiprocessing.get_context("spawn")  # a fork would inherit threads and open files
    readers: dict[Connection, Any] = {}
    try:
        for share in (prompts[job::jobs] for job in range(min(jobs, len(prompts)))):
            reader, writer = context.Pipe(duplex=False)
            process = context.Process(
                target=_speak_share, args=(share, out, sampling_rate, writer), daemon=True
            )
            process.start()
            writer.close()  # so that the end of the process is the end of its stream
            readers[reader] = process
        while readers:
            for ready in wait(list(readers)):
                assert isinstance(ready, Connection)
                message = _receive(ready, readers[ready])
                if message is None:
                    readers.pop(ready).join()
                elif isinstance(message, ArborvoxError):
                    raise message
                else:
                    yield message
    finally:
        for process in readers.values():
            process.terminate()
            process.join()


def _receive(reader: Connection, process: Any) -> Outcome | ArborvoxError | None:
    """The next message of a process; None says that its share is done."""
    try:
        message: Outcome | ArborvoxError | None = reader.recv()
    except EOFError:
        process.join()
        raise ArborvoxError(
            f"A process that synthesizes speech died (exit code {process.exitcode}); "
            "run the same command again to carry on."
        ) from None
    return message


def _speak_share(share: list[Prompt], out: Path, sampling_rate: int, writer: Connection) -> None:
    """Body of a process: speak each prompt into its clip, and say what became of it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends us
    try:
        espeak = Espeak()
        for prompt in share:
            try:
                phones = _write_clip(espeak, prompt, out, sampling_rate)
            except SpeechError as error:
                writer.send(Outcome(prompt, (), str(error)))
            else:
                writer.send(Outcome(prompt, phones, ""))
        writer.send(None)
    except ArborvoxError as error:
        writer.send(error)
    except BrokenPipeError:
        return  # the parent is gone, nobody listens
    except (OSError, soundfile.LibsndfileError) as error:
        writer.send(ArborvoxError(f"Cannot write the clips of {out}: {error}"))


def _write_clip(espeak: Espeak, prompt: Prompt, out: Path, sampling_rate: int) -> tuple[str, ...]:
    noise_seed = int.from_bytes(hashlib.sha256(prompt.path.encode()).digest()[:4]) >> 1
    speech = espeak.speak(prompt.sentence, prompt.speaker.voice, noise_seed)
    samples = np.frombuffer(speech.pcm, dtype=np.int16).astype(np.float32)  # (T,)
    resampled = soxr.resample(samples, ESPEAK_RATE_HZ, sampling_rate)
    rounded = np.clip(np.rint(resampled), -32_768, 32_767).astype(np.int16)
    clip = path_below(out, prompt.language, "clips", prompt.path)
    soundfile.write(clip, rounded, sampling_rate, format="FLAC", subtype="PCM_16")
    return speech.phones
