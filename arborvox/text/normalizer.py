"""The normalizer: a sentence in, the units to be learned out, with the reason if it is unusable."""

import functools
import re
import unicodedata
from typing import Any, Literal

import regex

from arborvox.config.choices import Policy
from arborvox.text.characters import (
    APOSTROPHE,
    BROKEN,
    DELETED,
    GAP,
    HYPHEN,
    JOINERS,
    LOOK,
    MIDDLE_DOT,
    CharacterTable,
    script_name,
)
from arborvox.text.languages import BRAHMIC_SCRIPTS, orthography
from arborvox.text.word_marks import WordMarks

_BRAHMIC = "".join(rf"\p{{Script={script}}}" for script in BRAHMIC_SCRIPTS)
# Joiners change the reading inside words of Persian and its kin, of Indic scripts, of Mongolian.
_STRAY_JOINER = regex.compile(
    rf"(?<![\p{{Script=Arabic}}{_BRAHMIC}])\u200c|\u200c(?![\p{{Script=Arabic}}{_BRAHMIC}])"
    rf"|(?<![{_BRAHMIC}])\u200d|\u200d(?![{_BRAHMIC}])"
    r"|(?<!\p{Script=Mongolian})\u180e|\u180e(?!\p{Script=Mongolian})"
)
_WORD = regex.compile(r"[\p{L}\p{M}]+")
_MARKED = re.compile(f"{LOOK}(.)")
_ORPHAN_MARKS = regex.compile(r"(?:^| )\p{M}+")
# Letters that were typed as a letter, a virama and a joiner before Unicode gave them a code.
_OLD_LETTERS = {
    "ണ്\u200d": "ൺ",
    "ന്\u200d": "ൻ",
    "ര്\u200d": "ർ",
    "ല്\u200d": "ൽ",
    "ള്\u200d": "ൾ",
    "ക്\u200d": "ൿ",
    "ত্\u200d": "ৎ",
}


class Normalizer:
    """Normalize sentences of one language; a pure function that remembers each character's fate."""

    def __init__(
        self,
        language: str,
        *,
        digits: Policy = "reject",
        foreign: Policy = "reject",
        case: Literal["lower", "keep"] = "lower",
        harakat: Literal["keep", "drop"] = "keep",
    ) -> None:
        self.language = language
        self.digits = digits
        self.foreign = foreign
        self.case = case
        self.harakat = harakat
        self._orthography = orthography(language)
        self._table = CharacterTable(
            self._orthography, lower=case == "lower", harakat=harakat == "keep"
        )
        self._reordered = [
            (re.compile(pattern), spelling) for pattern, spelling in self._orthography.reordered
        ]
        self._has_final_sigma = case == "lower" and "Greek" in self._orthography.scripts
        self._word_marks = WordMarks(self._orthography)

    def __reduce__(self) -> Any:
        make = functools.partial(
            Normalizer,
            digits=self.digits,
            foreign=self.foreign,
            case=self.case,
            harakat=self.harakat,
        )
        return make, (self.language,)

    def __call__(self, sentence: str) -> tuple[str, str]:
        """Return the normalized text, and why it cannot be used ("" if it can)."""
        text, problem, is_settled = self._pass(sentence)
        while not is_settled:
            text, later_problem, is_settled = self._pass(text)
            problem = problem or later_problem
        return text, problem

    def _pass(self, sentence: str) -> tuple[str, str, bool]:
        """Return the text, the problem, and whether another pass would change nothing."""
        if not sentence.isascii() and not unicodedata.is_normalized("NFC", sentence):
            sentence = unicodedata.normalize("NFC", sentence)
        for pattern, spelling in self._reordered:
            sentence = pattern.sub(spelling, sentence)
        if self._has_final_sigma and "Σ" in sentence:
            sentence = sentence.lower()  # lower() knows which sigma ends a word; a table cannot
        text = " ".join(sentence.translate(self._table).split())
        if LOOK in text:
            return self._look_closer(sentence, text)
        if self._table.has_marks or not text[:1].isalnum():
            return self._finish(text, "")
        return text, "", True

    def _look_closer(self, sentence: str, text: str) -> tuple[str, str, bool]:
        """Decide about the characters whose fate depends on their neighbors or on a policy."""
        marked = set(_MARKED.findall(text))
        text = text.replace(LOOK, "")
        if marked <= {APOSTROPHE, HYPHEN, GAP}:
            return self._finish(self._settle_marks(text, marked), "")
        numbers = {character for character in marked if unicodedata.category(character)[0] == "N"}
        foreign = {
            character
            for character in marked - numbers - set(JOINERS)
            if not self._table.is_native(character)
        }
        if foreign and (repaired := self._repair(sentence)) != sentence:
            return repaired, "", False
        text, problem = self._apply_policies(text, numbers, foreign)
        if BROKEN in marked:
            text, problem = text.replace(BROKEN, " "), "broken encoding"
        if not marked.isdisjoint(JOINERS):
            text = _settle_joiners(text)
        if MIDDLE_DOT in marked:
            text = self._word_marks.settle_middle_dots(text)
        text = text.replace(DELETED, "")
        text = self._settle_marks(text, marked)
        if not unicodedata.is_normalized("NFC", text) or (foreign and self._repair(text) != text):
            return text, problem, False
        return self._finish(" ".join(text.split()), problem)

    def _settle_marks(self, text: str, marked: set[str]) -> str:
        """Keep the signs that are spelling where they stand; the others become spaces."""
        if GAP in marked or APOSTROPHE in marked:
            text = self._word_marks.settle_gaps(text)
        if HYPHEN in marked:
            text = self._word_marks.settle_hyphens(text)
        if APOSTROPHE in marked:
            text = self._word_marks.settle_apostrophes(text)
        return " ".join(text.split())

    def _finish(self, text: str, problem: str) -> tuple[str, str, bool]:
        if _ORPHAN_MARKS.search(text):
            return _ORPHAN_MARKS.sub(" ", text), problem, False
        if not text[:1].isalnum() and not any(map(str.isalnum, text)):
            problem = problem or "no letters left"
        return text, problem, True

    def _apply_policies(self, text: str, numbers: set[str], foreign: set[str]) -> tuple[str, str]:
        dropped = set()
        problem = ""
        if self.foreign == "drop":
            dropped |= foreign
        elif foreign and self.foreign == "reject":
            scripts = sorted({script_name(character) for character in foreign})
            problem = f"foreign script ({', '.join(scripts)})"
        if self.digits == "drop":
            dropped |= numbers
        elif numbers and self.digits == "reject":
            problem = "digits"
        return text.translate({ord(character): " " for character in dropped}), problem

    def _repair(self, sentence: str) -> str:
        """Put right letters of another keyboard inside words of the language's own script."""
        lookalikes = self._orthography.lookalikes
        if not lookalikes:
            return sentence

        def repair_word(match: Any) -> str:
            word: str = match.group()
            strangers = {character for character in word if not self._table.is_native(character)}
            is_native = len(strangers) < len(set(word)) or len(word) == 1
            if strangers and is_native and strangers <= lookalikes.keys():
                return "".join(lookalikes.get(character, character) for character in word)
            return word

        return str(_WORD.sub(repair_word, sentence))


def _settle_joiners(text: str) -> str:
    for old, new in _OLD_LETTERS.items():
        text = text.replace(old, new)
    return str(_STRAY_JOINER.sub("", text))
