"""espeak-ng through ctypes: a sentence and a voice in, samples and phones out."""

import contextlib
import ctypes
import itertools
import os
import re
import signal
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from arborvox.errors import ArborvoxError

ESPEAK_RATE_HZ = 22_050
TIMEOUT_S = 60  # a sentence takes milliseconds; whoever takes this long has hung

# Names from espeak-ng's speak_lib.h.
_AUDIO_OUTPUT_SYNCHRONOUS = 2
_INITIALIZE_DONT_EXIT = 0x8000
_CHARS_UTF8 = 1
_END_PAUSE = 0x1000
_PHONEMES_IPA = 0x02
_PARAMETER_RATE, _PARAMETER_PITCH, _PARAMETER_RANGE = 1, 3, 4
_EVENT_LIST_ENDS, _EVENT_WORD = 0, 1


class _Event(ctypes.Structure):
    """What espeak-ng tells beside the samples; of its last field only the size matters here."""

    _fields_ = (
        ("type", ctypes.c_int),
        ("unique_identifier", ctypes.c_uint),
        ("text_position", ctypes.c_int),
        ("length", ctypes.c_int),
        ("audio_position_ms", ctypes.c_int),
        ("sample", ctypes.c_int),
        ("user_data", ctypes.c_void_p),
        ("id", ctypes.c_char * 8),
    )


_SYNTH_CALLBACK = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.POINTER(ctypes.c_short), ctypes.c_int, ctypes.POINTER(_Event)
)

_NO_SUCH_VOICE = 3  # exit code of the child that speaks
_SEPARATOR = "\ue000"  # private use: espeak-ng puts it between phonemes, no phoneme contains it

# Apostrophes that espeak-ng takes for the name of a symbol ("ejective") or for a word boundary.
_SPOKEN_APOSTROPHES = str.maketrans({"ʼ": "’", "`": "’"})

_LANGUAGE_SWITCH = re.compile(r"\([a-z]{2,3}(?:-[A-Za-z0-9]+)*\)")  # "(en)" around a borrowed word
_STRESS = re.compile("[ˈˌ]")
_TIE = "\u0361"
# Phoneme names that some voices leave in espeak-ng's ASCII notation; longer ones first.
_ASCII_LEAKS = (
    ("oe", "œ"),
    ('u"', "ʉ"),
    ("l-", "ɫ"),
    ("iʲ", "i"),
    ("S", "ʃ"),
    ("Z", "ʒ"),
    ("N", "ŋ"),
    ("X", "χ"),
    (":", "ː"),
    ("[", "\u032a"),
)
_SIBILANTS = frozenset("szʃʒʂʐɕʑ")
_STOPS = frozenset("tdʈɖ")


@dataclass(frozen=True)
class Voice:
    """How a synthetic speaker sounds: an espeak-ng language and variant, and its settings."""

    language: str
    variant: str
    rate_wpm: int
    pitch: int  # 0-99, 50 is the variant's own
    pitch_range: int  # 0-99, 0 is monotone


@dataclass(frozen=True)
class Speech:
    """A spoken sentence: 16-bit mono samples at ESPEAK_RATE_HZ, its phones, where words begin.

    What espeak-ng says in one breath, such as an article and its noun, can be one word to it.
    """

    pcm: bytes
    phones: tuple[str, ...]
    word_starts: tuple[int, ...]  # samples


class SpeechError(Exception):
    """A sentence that espeak-ng cannot speak; the message is the reason."""


def available_languages() -> frozenset[str]:
    """The language codes for which the installed espeak-ng has a voice that can read."""
    data = Path(_loader().get_data_path())
    voices = [file for file in (data / "lang").rglob("*") if file.is_file()]
    # A voice is found by the name of its file, not by the other codes that the file lists.
    return frozenset(file.name.lower() for file in voices if _dictionary(file, data).is_file())


def _dictionary(voice: Path, data: Path) -> Path:
    """The rules of reading that a voice names, or those of its language; some were never made."""
    # language fr-be 8   (the code, then an optional priority)
    # dictionary fr
    text = voice.read_text(encoding="utf-8", errors="replace")
    named = re.search(r"^dictionary\s+(\S+)", text, re.MULTILINE)
    language = re.search(r"^language\s+([^\s-]+)", text, re.MULTILINE)
    found = named or language
    return data / f"{found[1] if found else voice.name}_dict"


def split_phones(transcription: str) -> tuple[str, ...]:
    """Clean an espeak-ng transcription (phonemes between U+E000) and split it into IPA phones."""
    units = re.split(rf"[\s{_SEPARATOR}]+", _LANGUAGE_SWITCH.sub(_SEPARATOR, transcription))
    return tuple(phone for unit in units for phone in _split_phoneme(unit))


def _split_phoneme(unit: str) -> list[str]:
    """Split one espeak-ng phoneme: diphthongs come apart, affricates and long phones stay whole."""
    unit = _STRESS.sub("", unicodedata.normalize("NFD", unit))
    for leak, ipa in _ASCII_LEAKS:
        unit = unit.replace(leak, ipa)
    phones: list[str] = []
    for segment in _segments(unit):
        if phones and phones[-1] in _STOPS and segment[0] in _SIBILANTS:
            phones[-1] += _TIE + segment  # "ts" is one phoneme here, unlike "t" and "s"
        elif phones and segment.startswith(phones[-1]):
            phones[-1] = segment.rstrip("ː") + "ː"  # "ss" is a long s
        else:
            phones.append(segment)
    return [unicodedata.normalize("NFC", phone) for phone in phones]


def _segments(unit: str) -> list[str]:
    """Group each IPA letter with its marks and with a letter tied to it; drop all the rest."""
    segments: list[str] = []
    for char in unit:
        category = unicodedata.category(char)
        if category in ("Mn", "Lm"):
            if segments:
                segments[-1] += char
        elif category in ("Ll", "Lo"):
            if segments and segments[-1].endswith(_TIE):
                segments[-1] += char
            else:
                segments.append(char)
    return segments


class Espeak:
    """The library in a process of its own: it moves the working directory and must not be shared.

    What espeak-ng has said changes how it says the next sentence (noise, phases, voices loaded).
    So this process never speaks: each sentence is spoken by a fork of it, which makes the samples a
    function of the arguments alone, and costs one sentence where espeak-ng crashes.
    """

    def __init__(self) -> None:
        _refuse_without_fork()
        loader = _loader()
        folder = Path(loader.get_data_path()).parent
        # espeak-ng cuts data paths at 160 bytes, so it is given the shortest one there is.
        os.chdir(folder)
        self._library = ctypes.CDLL(loader.get_library_path())
        self._library.espeak_TextToPhonemes.restype = ctypes.c_char_p
        self._library.espeak_ng_SetRandSeed.argtypes = [ctypes.c_long]
        rate_hz = self._library.espeak_Initialize(
            _AUDIO_OUTPUT_SYNCHRONOUS, 0, b".", _INITIALIZE_DONT_EXIT
        )
        if rate_hz != ESPEAK_RATE_HZ:
            raise ArborvoxError(
                f"espeak-ng in {folder} does not start; install it again: "
                "pip install --force-reinstall espeakng-loader."
            )
        self._chunks: list[bytes] = []
        self._word_starts: list[int] = []
        self._callback = _SYNTH_CALLBACK(self._receive)  # kept: ctypes does not keep it alive
        self._library.espeak_SetSynthCallback(self._callback)

    def speak(self, sentence: str, voice: Voice, seed: int) -> Speech:
        """Speak a sentence in a fork of this process."""
        answer, status = _run_forked(lambda: self._speak_here(sentence, voice, seed))
        if status == _NO_SUCH_VOICE:
            raise SpeechError(f"no voice {voice.language}+{voice.variant}")
        if status != 0:
            raise SpeechError(f"espeak-ng ended with code {status}")
        transcription, starts, pcm = answer.split(b"\n", 2) if answer else (b"", b"", b"")
        phones = split_phones(transcription.decode("utf-8"))
        if not phones or not any(pcm):
            raise SpeechError("nothing to pronounce")
        return Speech(pcm, phones, tuple(map(int, starts.split())))

    def transcribe(self, sentence: str) -> str:
        """What the current voice reads in a sentence, as espeak-ng writes it (see split_phones)."""
        rest = ctypes.c_char_p(_spoken_form(sentence))
        mode = _PHONEMES_IPA | ord(_SEPARATOR) << 8
        clauses: list[bytes] = []
        while rest.value:  # each call reads a clause and moves the pointer behind it
            clause = self._library.espeak_TextToPhonemes(ctypes.byref(rest), _CHARS_UTF8, mode)
            clauses.append(clause or b"")
        return b" ".join(clauses).decode("utf-8", errors="replace").replace("\n", " ")

    def select(self, voice: Voice) -> bool:
        """Make a voice the current one; False where espeak-ng has none for its language."""
        name = f"{voice.language}+{voice.variant}".encode()
        if self._library.espeak_SetVoiceByName(name) != 0:
            return False
        for parameter, value in (
            (_PARAMETER_RATE, voice.rate_wpm),
            (_PARAMETER_PITCH, voice.pitch),
            (_PARAMETER_RANGE, voice.pitch_range),
        ):
            self._library.espeak_SetParameter(parameter, value, 0)
        return True

    def _speak_here(self, sentence: str, voice: Voice, seed: int) -> bytes:
        """Speak in this process: the transcription, where words begin, the samples; a line each."""
        if not self.select(voice):
            os._exit(_NO_SUCH_VOICE)
        transcription = self.transcribe(sentence)
        self._library.espeak_ng_SetRandSeed(seed)
        ctypes.CDLL(None).srand(seed)  # some variants make their noise with the C library
        text = _spoken_form(sentence)
        flags = _CHARS_UTF8 | _END_PAUSE
        self._library.espeak_Synth(text, len(text) + 1, 0, 0, 0, flags, None, None)
        self._library.espeak_Synchronize()
        starts = " ".join(map(str, self._word_starts))
        return f"{transcription}\n{starts}\n".encode() + b"".join(self._chunks)

    def _receive(self, samples: Any, num_samples: int, events: Any) -> int:
        if samples and num_samples > 0:
            self._chunks.append(ctypes.string_at(samples, 2 * num_samples))
        for event in itertools.takewhile(lambda each: each.type != _EVENT_LIST_ENDS, events):
            if event.type == _EVENT_WORD:
                self._word_starts.append(event.sample)
        return 0  # go on


class PhoneReader:
    """Tells how espeak-ng would read sentences of one language, from a process of its own."""

    def __init__(self, language: str) -> None:
        _refuse_without_fork()
        if language not in available_languages():
            raise ArborvoxError(
                f"espeak-ng cannot read '{language}', so its sentences have no phones; "
                "leave the language out, or put a phones.tsv beside its validated.tsv."
            )
        self._voice = Voice(language, "f1", rate_wpm=160, pitch=50, pitch_range=50)
        questions, self._ask = os.pipe()
        self._hear, answers = os.pipe()
        self._child = os.fork()
        if self._child == 0:
            os.close(self._ask)
            os.close(self._hear)
            self._answer_and_exit(questions, answers)
        os.close(questions)
        os.close(answers)
        self._questions = os.fdopen(self._ask, "w", encoding="utf-8", newline="\n")
        self._answers = os.fdopen(self._hear, encoding="utf-8", newline="\n")

    def __enter__(self) -> "PhoneReader":
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(BrokenPipeError):
            self._questions.close()
        self._answers.close()
        os.waitpid(self._child, 0)

    def read(self, sentence: str) -> tuple[str, ...]:
        """The phones of a sentence; none where there is nothing to pronounce."""
        try:
            self._questions.write(" ".join(sentence.split()) + "\n")
            self._questions.flush()
        except BrokenPipeError:
            answer = ""
        else:
            answer = self._answers.readline()
        if not answer:
            raise ArborvoxError(
                f"espeak-ng broke down while reading this {self._voice.language} sentence; take it "
                f"out of the corpus: {sentence}"
            )
        return split_phones(answer)

    def _answer_and_exit(self, questions: int, answers: int) -> NoReturn:
        with contextlib.suppress(BaseException):
            signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides when it ends
            espeak = Espeak()
            espeak.select(self._voice)
            with (
                os.fdopen(questions, encoding="utf-8", newline="\n") as asked,
                os.fdopen(answers, "w", encoding="utf-8", newline="\n") as told,
            ):
                for sentence in asked:
                    told.write(espeak.transcribe(sentence) + "\n")
                    told.flush()
            os._exit(0)
        os._exit(1)


def _refuse_without_fork() -> None:
    if not hasattr(os, "fork"):
        raise ArborvoxError("espeak-ng is used through forks, as Linux and macOS have them.")


def _spoken_form(sentence: str) -> bytes:
    return sentence.translate(_SPOKEN_APOSTROPHES).encode("utf-8")


def _run_forked(work: Callable[[], bytes]) -> tuple[bytes, int]:
    """Run `work` in a fork of this process; its bytes, and the child's exit code."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        _work_and_exit(work, writer)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        answer = pipe.read()
    return answer, os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def _work_and_exit(work: Callable[[], bytes], writer: int) -> NoReturn:
    # os._exit: a fork must not run what its parent has registered for its own end.
    with contextlib.suppress(BaseException):
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(TIMEOUT_S)
        with os.fdopen(writer, "wb") as pipe:
            pipe.write(work())
        os._exit(0)
    os._exit(1)


def _loader() -> Any:
    """The package that carries the library and its data; an extra, so imported when needed."""
    try:
        import espeakng_loader
    except ImportError:
        raise ArborvoxError(
            "Synthetic speech needs espeak-ng; install it with: pip install 'arborvox[demo]'."
        ) from None
    return espeakng_loader
