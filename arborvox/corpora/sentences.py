"""Sentences to be spoken: composed of the CLDR names that Babel carries, or read from a file."""

import random
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from arborvox.errors import ArborvoxError

MIN_NAMES = 100  # below this a locale is a stub: ba has a handful of untranslated month codes
_TRIES_PER_SENTENCE = 50
_PSEUDO_REGIONS = ("XA", "XB")  # "Pseudo-Accents" and "Pseudo-Bidi", for testing software
# Letters, in words joined by spaces, hyphens and apostrophes: what can be read aloud without doubt.
_READABLE = re.compile(r"[^\W\d_]+(?:(?:[ \xa0\-‑]|[’'‘])[^\W\d_]+)*")


def compose_sentences(
    language: str, count: int, max_words: int, seed: int, lengths: Sequence[int] = (2, 3, 4)
) -> list[str]:
    """Compose distinct sentences, lists of CLDR names, for a language that Babel carries.

    Each sentence lines up as many names as one of `lengths` says.
    """
    locale, names = _readable_names(language, max_words // min(lengths))
    from babel.lists import format_list

    rng = random.Random(f"{seed}/{language}/cldr")
    sentences: dict[str, None] = {}
    for _ in range(_TRIES_PER_SENTENCE * count if names else 0):
        if len(sentences) == count:
            return list(sentences)
        kinds = rng.choices(sorted(names), k=rng.choice(lengths))
        chosen = [rng.choice(names[kind]) for kind in kinds]
        listed = format_list(chosen, style=rng.choice(("standard", "or")), locale=locale)
        sentence = " ".join(listed.split()) + "."
        if len(set(chosen)) == len(chosen) and len(sentence.split()) <= max_words:
            sentences[sentence] = None
    if len(sentences) == count:
        return list(sentences)
    raise ArborvoxError(
        f"Only {len(sentences)} sentences of at most {max_words} words can be composed for "
        f"{language}; ask for fewer sentences or allow more words."
    )


def read_sentences(path: Path, max_words: int) -> list[str]:
    """Read the distinct sentences, one a line, that have letters and at most `max_words` words."""
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise ArborvoxError(
            f"There is no file {path}; write it, one sentence a line, or leave its language out."
        ) from None
    except OSError as error:
        raise ArborvoxError(f"{path} cannot be read: {error.strerror}.") from None
    sentences: dict[str, None] = {}
    for number, line in enumerate(content.removeprefix(b"\xef\xbb\xbf").split(b"\n"), start=1):
        try:
            sentence = " ".join(line.decode("utf-8").split())
        except UnicodeDecodeError:
            raise ArborvoxError(f"{path}, line {number}: not UTF-8 text; convert it.") from None
        readable = any(char.isalpha() for char in sentence) and "\0" not in sentence
        if readable and len(sentence.split()) <= max_words:
            sentences[sentence] = None
    if not sentences:
        raise ArborvoxError(f"{path} has no sentence of at most {max_words} words.")
    return list(sentences)


def cut_pieces(sentences: Sequence[str], lengths: Sequence[int], rng: random.Random) -> list[str]:
    """Cut a piece out of each sentence, of as many words as one of `lengths` says, by lot.

    A sentence that is not longer is taken whole; a piece that came before or has no letter is not.
    """
    pieces: dict[str, None] = {}
    for sentence in sentences:
        words = sentence.split()
        length = min(rng.choice(lengths), len(words))
        start = rng.randrange(len(words) - length + 1)
        piece = " ".join(words[start : start + length])
        if any(char.isalpha() for char in piece):
            pieces[piece] = None
    return list(pieces)


def _readable_names(language: str, most_words: int) -> tuple[Any, dict[str, list[str]]]:
    """The Babel locale of a language, and its names by kind: only those that fit a sentence."""
    try:
        from babel import Locale, UnknownLocaleError
    except ImportError:
        raise ArborvoxError(
            "Sentences are made of Babel's CLDR names; install it with: "
            "pip install 'arborvox[demo]', or give your own sentences with --text."
        ) from None
    try:
        locale = Locale.parse(language)
    except (UnknownLocaleError, ValueError):
        raise _no_names(language) from None
    names = {kind: sorted(set(found)) for kind, found in _names_by_kind(locale).items()}
    script = _main_script(name for found in names.values() for name in found)
    fitting = {
        kind: [name for name in found if _fits(name, script, most_words)]
        for kind, found in names.items()
    }
    # The root locale lends its English codes for days and months where a language has none.
    if len(locale.territories) < MIN_NAMES:
        raise _no_names(language)
    return locale, {kind: found for kind, found in fitting.items() if found}


def _names_by_kind(locale: Any) -> dict[str, Iterable[str]]:
    return {
        "territories": [n for code, n in locale.territories.items() if code not in _PSEUDO_REGIONS],
        "languages": locale.languages.values(),
        "scripts": locale.scripts.values(),
        "currencies": locale.currencies.values(),
        "months": locale.months["stand-alone"]["wide"].values(),
        "days": locale.days["stand-alone"]["wide"].values(),
        "units": [unit["long"] for unit in locale.unit_display_names.values() if "long" in unit],
        "cities": [zone["city"] for zone in locale.time_zones.values() if "city" in zone],
        "zones": [n for zone in locale.meta_zones.values() for n in zone.get("long", {}).values()],
    }


def _fits(name: str, script: str, most_words: int) -> bool:
    words = name.split()
    acronym = any(len(word) > 1 and word.isupper() for word in words)
    # Vowel signs are marks, not letters; without them what is left must still be words.
    letters = "".join(char for char in name if not unicodedata.category(char).startswith("M"))
    return (
        bool(_READABLE.fullmatch(letters))
        and not acronym
        and len(words) < most_words
        and all(_script(char) == script for char in name if _has_script(char))
    )


def _main_script(names: Iterable[str]) -> str:
    counts = Counter(_script(char) for name in names for char in name if _has_script(char))
    return max(sorted(counts), key=lambda script: counts[script], default="")


def _has_script(char: str) -> bool:
    return unicodedata.category(char) in ("Lu", "Ll", "Lo")  # not ʻ and ʼ, which have no script


def _script(char: str) -> str:
    return unicodedata.name(char, "").split(" ")[0]  # "CYRILLIC SMALL LETTER A"


def _no_names(language: str) -> ArborvoxError:
    return ArborvoxError(
        f"Babel carries no CLDR names for '{language}'; give sentences of your own: "
        f"--text DIR with a file {language}.txt, one sentence a line."
    )
