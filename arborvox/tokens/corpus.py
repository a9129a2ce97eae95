"""Sentences with their languages, streamed from manifests or text files."""

import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from arborvox.errors import ArborvoxError
from arborvox.manifest import SUFFIX, read_manifest, split_file
from arborvox.text import Normalizer
from arborvox.text.codes import check_language, check_languages
from arborvox.tokens.tokenizer import flaw_of

TRAINING_CUTS = split_file("train")  # in a folder made by `arborvox prepare`
TEXT_SUFFIX = ".txt"
PHONE_TABLE = "text.txt"  # in each language's folder of the UCLA corpus


@dataclass(frozen=True, slots=True)
class Sentence:
    """What was said or written once, in which language."""

    language: str
    text: str


class TextCorpus:
    """Sentences that can be read more than once, a line at a time.

    A source is a Lhotse manifest (*.jsonl.gz), a text file with a sentence a line (ca.txt: the name
    is the language; it is normalized here), or a folder that holds training cuts, text files, or
    the UCLA corpus in its own layout (<language>/text.txt).
    """

    def __init__(
        self,
        sources: Sequence[Path],
        languages: Sequence[str] | None = None,
        *,
        text_language: str | None = None,
        has_phones: bool = False,
    ) -> None:
        """Find the files; they are read when the corpus is iterated.

        `text_language` is the language of text files whose names do not tell it; with `has_phones`
        their lines are phones with spaces between, and no sentences to be normalized.
        """
        files = [file for source in sources for file in _files_of(source)]
        self.files = tuple(dict.fromkeys(files))  # a file named twice is one file
        if languages is not None:
            check_languages(languages, "--languages")
        if text_language is not None:
            check_language(text_language, "--language")
        self._languages = None if languages is None else frozenset(languages)
        self._text_language = text_language
        self._has_phones = has_phones
        self.skipped: Counter[tuple[str, str]] = (
            Counter()
        )  # (language, problem), of the last reading

    def __iter__(self) -> Iterator[Sentence]:
        """Yield the sentences of the wanted languages; refuse a corpus without any."""
        self.skipped.clear()
        found: set[str] = set()
        for file in self.files:
            for sentence in self._reader_of(file)(file):
                found.add(sentence.language)
                yield sentence
        if missing := sorted((self._languages or set()) - found):
            raise ArborvoxError(
                f"No sentence in {', '.join(missing)} was found in {_list_files(self.files)}."
            )
        if not found:
            raise ArborvoxError(f"The corpus is empty: no sentence in {_list_files(self.files)}.")

    @property
    def text_languages(self) -> list[str]:
        """The languages that names of files and folders tell, without opening any."""
        texts = (file for file in self.files if file.suffix == TEXT_SUFFIX)
        return sorted(f.parent.name if f.name == PHONE_TABLE else f.stem for f in texts)

    def _reader_of(self, file: Path) -> Callable[[Path], Iterator[Sentence]]:
        if file.name == PHONE_TABLE:
            return self._read_phones
        return self._read_text if file.suffix == TEXT_SUFFIX else self._read_cuts

    def _wants(self, language: str) -> bool:
        return self._languages is None or language in self._languages

    def _read_text(self, file: Path) -> Iterator[Sentence]:
        language = self._text_language or check_language(file.stem, str(file))
        if not self._wants(language):
            return
        normalize = _tidy_phones if self._has_phones else Normalizer(language)
        for line in _lines_of(file):
            if not line.strip():
                continue
            text, problem = normalize(line)
            if problem:
                self.skipped[language, problem] += 1
            else:
                yield Sentence(language, text)

    def _read_phones(self, file: Path) -> Iterator[Sentence]:
        language = check_language(file.parent.name, str(file))
        if not self._wants(language):
            return
        # abk-002-000 a d͡ʒ ʃʲ
        for line in _lines_of(file):
            _, _, phones = unicodedata.normalize("NFC", line).strip().partition(" ")
            if phones.strip():
                yield Sentence(language, phones.strip())

    def _read_cuts(self, file: Path) -> Iterator[Sentence]:
        for number, utterance in enumerate(read_manifest(file), start=1):
            text, language = utterance.text, utterance.language
            if flaw := flaw_of(text):
                raise ArborvoxError(f"{file}, line {number}: the text contains {flaw}: {text!r}.")
            if self._wants(language) and text:
                yield Sentence(language, text)


def _tidy_phones(line: str) -> tuple[str, str]:
    """Return a line of phones with one space between them, as `Normalizer` returns a sentence."""
    return " ".join(unicodedata.normalize("NFC", line).split()), ""


def _lines_of(file: Path) -> Iterator[str]:
    try:
        with file.open(encoding="utf-8") as lines:
            yield from lines
    except UnicodeDecodeError:
        raise ArborvoxError(f"{file} is not UTF-8 text.") from None


def _files_of(source: Path) -> list[Path]:
    if source.is_file():
        if source.suffix != TEXT_SUFFIX and not source.name.endswith(SUFFIX):
            raise ArborvoxError(
                f"{source} is neither a manifest (*.jsonl.gz) nor a text (<language>.txt)."
            )
        return [source]
    if not source.is_dir():
        raise ArborvoxError(f"There is no manifest, text file or folder {source}.")
    if (source / TRAINING_CUTS).is_file():
        return [source / TRAINING_CUTS]
    texts = sorted(source.glob(f"*{TEXT_SUFFIX}")) or sorted(source.glob(f"*/{PHONE_TABLE}"))
    if not texts:
        raise ArborvoxError(
            f"The folder {source} holds neither {TRAINING_CUTS} nor <language>.txt files."
        )
    return texts


def _list_files(files: Sequence[Path]) -> str:
    shown = ", ".join(map(str, files[:3]))
    return f"{shown} and {len(files) - 3} more" if len(files) > 3 else shown
