"""A group of sounds in a phonetician's words: what they have in common, and what is left open."""

from collections.abc import Callable, Sequence

from arborvox.tree.articulation import (
    LETTER_CLASSES,
    TIES,
    Articulation,
    ipa_letters,
    main_letter,
    signs_of,
)

# What the classes of letters are called of a sound, in the order in which it is said.
PLACES = {
    "labial letter": "labial",
    "dental letter": "dental",
    "alveolar letter": "alveolar",
    "postalveolar letter": "postalveolar",
    "palatal letter": "palatal",
    "velar letter": "velar",
    "uvular letter": "uvular",
    "glottal or pharyngeal letter": "guttural",
}
MANNERS = {
    "plosive": "stop",
    "nasal letter": "nasal",
    "trill or tap": "trill or tap",
    "fricative": "fricative",
    "approximant": "approximant",
    "click letter": "click",
}
HEIGHTS = ("close", "near-close", "close-mid", "mid", "open-mid", "open")
BACKNESSES = ("front", "central", "back")
LONG, NASAL = "\u02d0", "\u0303"

# What is asked, and how its answers are told: (what is unsure if they differ, word of a sound).
Trait = tuple[str, Callable[["_Sound"], str]]


class _Sound:
    """One sound: its letter, its signs and its features."""

    def __init__(self, articulation: Articulation, unit: str) -> None:
        text = ipa_letters(unit)
        self.letter, self.signs = main_letter(text), signs_of(text)
        self.letters = [c for c in text if c not in self.signs and c not in TIES]
        self.features = articulation.features(articulation.nearest_relative(unit))
        self.is_vowel = any(self.letter in LETTER_CLASSES[f"{name} vowel"] for name in HEIGHTS)

    def word_of(self, words: dict[str, str]) -> str:
        """Return the word of the first class of letters that the main one belongs to."""
        return _word_of(self.letter, words)

    @property
    def place(self) -> str:
        """Say where in the mouth: of an affricate where it ends, of two at once both."""
        letters = self.letters[-1:] if self.manner == "affricate" else self.letters
        words = dict.fromkeys(_word_of(letter, PLACES) for letter in letters)
        return "-".join(word for word in words if word)

    @property
    def manner(self) -> str:
        """Say how the air is held up."""
        if len(self.letters) > 1 and self.word_of(MANNERS) == "stop":
            return "affricate" if self.features["delayed release"] > 0 else "stop"
        return self.word_of(MANNERS) or "sound"


def _word_of(letter: str, words: dict[str, str]) -> str:
    return next((word for name, word in words.items() if letter in LETTER_CLASSES[name]), "")


def _class_word(names: Sequence[str], kind: str) -> Callable[[_Sound], str]:
    words = {f"{name} {kind}": name for name in names}
    return lambda sound: sound.word_of(words)


def _sign_word(sign: str, word: str) -> Callable[[_Sound], str]:
    return lambda sound: word if sign in sound.signs else ""


VOWEL_TRAITS: tuple[Trait, ...] = (
    ("length", _sign_word(LONG, "long")),
    ("nasality", _sign_word(NASAL, "nasal")),
    ("height", _class_word(HEIGHTS, "vowel")),
    ("backness", _class_word(BACKNESSES, "vowel")),
    ("rounding", lambda sound: "rounded" if sound.features["round"] > 0 else "unrounded"),
)
CONSONANT_TRAITS: tuple[Trait, ...] = (
    ("length", _sign_word(LONG, "long")),
    ("voicing", lambda sound: "voiced" if sound.features["voiced"] > 0 else "voiceless"),
    ("place", lambda sound: sound.place),
)


def describe(articulation: Articulation, units: Sequence[str]) -> str:
    """Say what units have in common, then what they differ in: "voiceless stop, place unsure".

    Units that panphon knows nothing of, and special tokens, must not be among them.
    """
    sounds = [_Sound(articulation, unit) for unit in units]
    if len({sound.is_vowel for sound in sounds}) > 1:
        return "sound unsure"
    traits = VOWEL_TRAITS if sounds[0].is_vowel else CONSONANT_TRAITS
    common, unsure = [], []
    for name, word in traits:
        words = {word(sound) for sound in sounds}
        if len(words) > 1:
            unsure.append(name)
        else:
            common += sorted(words - {""})
    noun = "vowel"
    if not sounds[0].is_vowel:
        manners = {sound.manner for sound in sounds}
        noun = manners.pop() if len(manners) == 1 else _family(sounds)
        if noun in ("consonant", "obstruent", "sonorant"):
            unsure.append("manner")
    if not unsure and len(sounds) > 1:
        unsure.append("fine detail")
    told = " ".join([*common, noun])
    return f"{told}, {_listed(unsure)} unsure" if unsure else told


def _family(sounds: Sequence[_Sound]) -> str:
    kinds = {sound.features["sonorant"] > 0 for sound in sounds}
    if len(kinds) > 1:
        return "consonant"
    return "sonorant" if kinds.pop() else "obstruent"


def _listed(words: Sequence[str]) -> str:
    return " and ".join((", ".join(words[:-1]), words[-1])) if len(words) > 1 else words[0]
