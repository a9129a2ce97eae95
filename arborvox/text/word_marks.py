"""Signs that belong to a word only in the right place: apostrophes, hyphens, middle dots."""

import re

import regex

from arborvox.text.characters import APOSTROPHE, GAP, HYPHEN, MIDDLE_DOT
from arborvox.text.languages import UNSPACED_SCRIPTS, Orthography

_TURNED_COMMA = "ʻ"
_REPEATED_APOSTROPHES = re.compile("''+")

# Where words stand without spaces between them, a quotation mark looks like an apostrophe.
_UNSPACED = "".join(rf"\p{{Script={script}}}" for script in UNSPACED_SCRIPTS)
_UNSPACED_APOSTROPHE = regex.compile(rf"(?<=[{_UNSPACED}])'|'(?=[{_UNSPACED}])")
# Where no spaces are written, punctuation and what stands for it leave none behind.
_JOINED = r"\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}ー"
_JOINED_APOSTROPHE = regex.compile(rf"(?<=[{_JOINED}{GAP}]\p{{M}}*)'|'(?=[{_JOINED}{GAP}])")
_JOINED_GAP = regex.compile(rf"(?<=[{_JOINED}]\p{{M}}*) *{GAP}[{GAP} ]*(?=[{_JOINED}])")


class WordMarks:
    """Keep apostrophes, hyphens and middle dots that are spelling, not those that punctuate."""

    def __init__(self, orthography: Orthography) -> None:
        scripts = orthography.scripts
        self._may_be_unspaced = not scripts or not set(UNSPACED_SCRIPTS).isdisjoint(scripts)
        self._apostrophe = orthography.apostrophe
        self._respelled = orthography.respelled
        self._leading = _words(orthography.leading)
        self._trailing = _words(orthography.trailing)
        self._elided = _words(orthography.elided)
        turned = orthography.turned_after
        self._turned = re.compile(f"(?<=[{turned}])'", re.IGNORECASE) if turned else None
        between = f"[{orthography.middle_dot or ' '}]"
        clitics = orthography.clitics
        self._before = _words(clitics.before if clitics else "")
        self._after = _words(clitics.after if clitics else "")
        self._joined = orthography.joined
        self._stray_dot = re.compile(
            f"(?<!{between}){MIDDLE_DOT}|{MIDDLE_DOT}(?!{between})", re.IGNORECASE
        )

    def settle_middle_dots(self, text: str) -> str:
        """Keep the dot of l·l; a bullet or a separator becomes a space."""
        return self._stray_dot.sub(" ", text)

    def settle_gaps(self, text: str) -> str:
        """Close the gap that a comma leaves between two letters that stand without spaces."""
        if not self._joined:
            return text
        text = _JOINED_APOSTROPHE.sub(GAP, text)
        return str(_JOINED_GAP.sub("", text)).replace(GAP, " ")

    def settle_hyphens(self, text: str) -> str:
        """Keep the hyphens that tie clitics to their word; a compound becomes its words."""
        return " ".join(
            word if HYPHEN not in word or self._has_clitics(word) else word.replace(HYPHEN, " ")
            for word in text.split()
        )

    def _has_clitics(self, word: str) -> bool:
        first, *rest = pieces = [piece.strip(APOSTROPHE) for piece in word.split(HYPHEN)]
        if not all(piece[:1].isalnum() for piece in pieces):
            return False
        return all(map(self._after.fullmatch, rest)) or all(
            map(self._before.fullmatch, [first, *rest[:-1]])
        )

    def settle_apostrophes(self, text: str) -> str:
        """Remove quotation marks from the edges of words and give the others one form."""
        if self._may_be_unspaced:
            text = " ".join(_UNSPACED_APOSTROPHE.sub(" ", text).split())
        padded = f" {text} "
        if " '" in padded or "' " in padded or "''" in padded:
            text = self._trim_words(text)
        if self._turned is not None:
            text = self._turned.sub(_TURNED_COMMA, text)
        return text.replace(APOSTROPHE, self._apostrophe)

    def _trim_words(self, text: str) -> str:
        words = []
        leaning = ""  # an elided word, waiting for the one that it leans on: dell' «Orlando»
        for piece in text.split():
            word = leaning + piece
            leaning = ""
            if APOSTROPHE in word:
                word = _REPEATED_APOSTROPHES.sub(APOSTROPHE, word)
                if self._leans(word):
                    leaning = word
                    continue
                word = self._respelled.get(word) or self._trim(word)
            words.append(word)
        words.append(leaning.strip(APOSTROPHE))
        return " ".join(filter(None, words))

    def _leans(self, word: str) -> bool:
        stem = word[:-1].rpartition(APOSTROPHE)[2]
        return word.endswith(APOSTROPHE) and self._elided.fullmatch(stem) is not None

    def _trim(self, word: str) -> str:
        stem = word.strip(APOSTROPHE)
        leads, trails = word.startswith(APOSTROPHE), word.endswith(APOSTROPHE)
        if leads and not trails and self._leading.fullmatch(stem):
            return APOSTROPHE + stem
        if trails and not leads and self._trailing.fullmatch(stem):
            return stem + APOSTROPHE
        return stem


def _words(pattern: str) -> re.Pattern[str]:
    # An empty alternative would match the empty stem: without words, nothing may match.
    return re.compile(pattern or r"(?!)", re.IGNORECASE)
