"""How sounds are made: what panphon and IPA's signs say of a unit, as answers to questions."""

import unicodedata
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

# panphon weighs its first 22 features; the two of tone count as much as its lightest.
TONE_WEIGHT = 0.125

# panphon's features in words.
FEATURES = {
    "syl": "syllabic", "son": "sonorant", "cons": "consonantal", "cont": "continuant",
    "delrel": "delayed release", "lat": "lateral", "nas": "nasal", "strid": "strident",
    "voi": "voiced", "sg": "spread glottis", "cg": "constricted glottis", "ant": "anterior",
    "cor": "coronal", "distr": "distributed", "lab": "labial", "hi": "high", "lo": "low",
    "back": "back", "round": "round", "velaric": "click", "tense": "tense", "long": "long",
    "hitone": "high tone", "hireg": "high register",
}  # fmt: skip

# Natural classes of IPA's letters, by its chart: they split more evenly than single features.
LETTER_CLASSES = {
    "labial letter": "pbmʙɸβfvʋⱱɱɓʘ",
    "dental letter": "θðǀ",
    "alveolar letter": "tdnrɾszɬɮɹlɗɫɺǃǁ",
    "postalveolar letter": "ʃʒɕʑʈɖɳɽʂʐɻɭǂ",
    "palatal letter": "cɟɲçʝjʎʄɥ",
    "velar letter": "kɡŋxɣɰʟɠwʍ",
    "uvular letter": "qɢɴʀχʁʛ",
    "glottal or pharyngeal letter": "ʔhɦħʕʜʢʡ",
    "plosive": "pbtdʈɖcɟkɡqɢʔʡɓɗʄɠʛ",
    "nasal letter": "mɱnɳɲŋɴ",
    "trill or tap": "ʙrʀɾɽⱱɺ",
    "fricative": "ɸβfvθðszʃʒʂʐçʝxɣχʁħʕhɦɬɮɕʑʍʜʢ",
    "approximant": "ʋɹɻjɰlɭʎʟwɥɫ",
    "click letter": "ʘǀǃǂǁ",
    "close vowel": "iyɨʉɯu",
    "near-close vowel": "ɪʏʊ",
    "close-mid vowel": "eøɘɵɤo",
    "mid vowel": "ə",
    "open-mid vowel": "ɛœɜɞʌɔ",
    "open vowel": "aæɐɶɑɒ",
    "front vowel": "iyɪʏeøɛœæaɶ",
    "central vowel": "ɨʉɘɵəɜɞɐ",
    "back vowel": "ɯuʊɤoʌɔɑɒ",
}

# Groups of IPA's signs: what they change about a sound.
SIGN_CLASSES = {
    "changed phonation": "\u0325\u030a\u0324\u0330\u02b0\u02b1\u02bc\u02c0\u032c",
    "changed place": "\u032a\u033a\u033b\u0320\u031f\u031d\u031e\u0318\u0319\u0308\u033d",
    "second articulation": "\u02b7\u02b2\u02e0\u02e4\u0334\u0339\u031c",
    "changed duration": "\u02d0\u02d1\u0306",
}
TIES = "\u0361\u035c"  # they join two letters into one sound and change nothing else
AFFRICATE_TIED = "plosive"  # not asked of a letter that is tied to another


class Articulation:
    """What panphon says about a unit, and about what it does not know."""

    def __init__(self) -> None:
        from panphon import FeatureTable  # slow to import, and few trees need it

        self._table: Any = FeatureTable()
        weights = list(self._table.weights)
        weights += [TONE_WEIGHT] * (len(self._table.names) - len(weights))
        self._scale = np.sqrt(np.array(weights))

    def knows(self, unit: str) -> bool:
        """Say whether panphon's segments make up the whole unit."""
        return bool(unit) and "".join(self._segments(unit)) == ipa_letters(unit)

    def vector(self, unit: str) -> NDArray[np.float64]:
        """Return weighted features, the mean over segments where a unit has several."""
        mean: NDArray[np.float64] = np.mean(self._rows(unit), axis=0) * self._scale
        return mean

    def features(self, unit: str) -> dict[str, int]:
        """Return 1, 0 or -1 for each of panphon's features, by its word, of the first segment."""
        first = self._rows(unit)[0]
        return {
            FEATURES.get(name, name): int(value)
            for name, value in zip(self._table.names, first, strict=True)
        }

    def nearest_relative(self, unit: str) -> str:
        """Return the unit, or what is left of it that panphon knows, or ""."""
        if self.knows(unit):
            return unit
        # "ȡ" is LATIN SMALL LETTER D WITH CURL: the letter that it was made from is its relative.
        stripped = "".join(_plain_letter(c) for c in unicodedata.normalize("NFKD", unit).lower())
        for form in (unit, stripped):
            segments = "".join(self._segments(form))
            if segments:
                return segments
        return ""

    def vectors(self, units: Sequence[str]) -> NDArray[np.float64]:
        """Return the features of units, a row each; NaN where nothing is known of one."""
        rows = np.full((len(units), len(self._scale)), np.nan)
        for row, unit in zip(rows, units, strict=True):
            relative = self.nearest_relative(unit)
            if relative:
                row[:] = self.vector(relative)
        return rows

    def _rows(self, unit: str) -> NDArray[np.float64]:
        rows = self._table.word_to_vector_list(ipa_letters(unit), numeric=True)
        return np.array(rows, np.float64)

    def _segments(self, unit: str) -> list[str]:
        return list(self._table.ipa_segs(ipa_letters(unit)))


def ask(
    articulation: Articulation, units: Sequence[str], relatives: Sequence[str]
) -> dict[str, NDArray[np.bool_]]:
    """Return every question that parts some of the units, with each unit's answer, (units,).

    `relatives` are the units as panphon knows them; signs and letters are asked of the units.
    """
    features = [articulation.features(relative) for relative in relatives]
    letters = [ipa_letters(unit) for unit in units]
    signs = [signs_of(text) for text in letters]
    main = [main_letter(text) for text in letters]
    answers: dict[str, list[bool]] = {"plain": [not own for own in signs]}
    for name in features[0]:
        answers[f"+{name}"] = [row[name] > 0 for row in features]
        answers[f"−{name}"] = [row[name] < 0 for row in features]
    for name, members in SIGN_CLASSES.items():
        answers[name] = [not own.isdisjoint(members) for own in signs]
    for name, members in LETTER_CLASSES.items():
        answers[name] = [letter in members for letter in main]
    tied = [any(tie in text for tie in TIES) for text in letters]
    answers[AFFRICATE_TIED] = [
        yes and not joined for yes, joined in zip(answers[AFFRICATE_TIED], tied, strict=True)
    ]
    for sign in sorted(set().union(*signs)):
        shown = f"◌{sign}" if unicodedata.category(sign)[0] == "M" else sign
        answers[f"sign {shown}"] = [sign in own for own in signs]
    for letter in sorted(set(main)):
        answers[f"letter {letter}"] = [own == letter for own in main]
    arrays = {name: np.array(given, np.bool_) for name, given in answers.items()}
    return {name: given for name, given in arrays.items() if given.any() and not given.all()}


def ipa_letters(unit: str) -> str:
    """Return the decomposed form that panphon uses, with IPA's own letter for g."""
    return unicodedata.normalize("NFD", unit).replace("g", "ɡ")


def signs_of(letters: str) -> set[str]:
    """Return the signs that change a sound: marks and raised letters, but no ties."""
    return {
        character
        for character in letters
        if unicodedata.category(character) in ("Mn", "Me", "Lm", "Sk") and character not in TIES
    }


def main_letter(letters: str) -> str:
    """Return the first letter that is no sign, or the first sign of a unit that has no letter."""
    signs = signs_of(letters)
    return next((character for character in letters if character not in signs), letters[0])


def _plain_letter(character: str) -> str:
    """Return the letter that a letter with an addition was made from."""
    plain, addition, _ = unicodedata.name(character, "").partition(" WITH ")
    try:
        return unicodedata.lookup(plain) if addition else character
    except KeyError:
        return character
