"""Letters that look alike but have other codes: found by counting, and made one where asked.

The pairs are those of Unicode's confusables.txt (UTS #39) that turn up where people type alphabets
on other languages' keyboards. What is only a matter of composing (é of one code or of two) is the
same letter: normalization makes it one in any case, here it is counted.
"""

import functools
import unicodedata
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

import regex

# Letters of different scripts. Several of one script are several letters: the one that the texts
# have most of is meant, or the first.
ACROSS_SCRIPTS = (
    *("AΑА", "BΒВ", "CС", "EΕЕ", "GԌ", "HΗН", "IΙІӀ", "JЈ", "KΚК", "MΜМ", "NΝ", "OΟО", "PΡР", "SЅ"),
    *("TΤТ", "WԜ", "XΧХ", "YΥУҮ", "ZΖ", "ƏӘ", "ƐԐ", "ƟΘӨ", "ƩΣ", "ƷӠ", "ɅΛ", "ΓГ", "ΠП", "ΦФ"),
    *("aа", "cс", "dԁ", "eе", "hһ", "iі", "jј", "oοо", "pρр", "qԛ", "sѕ", "vν", "wԝ", "xх", "yуү"),
    *("lӏ", "ħћ", "əǝә", "ɑα", "ɛεԑ", "ɜз", "ɣγ", "ɩι", "ɵө", "ɸφф", "ʋυ", "ʒӡ", "ĸκк", "ɔͻ"),
)
# Letters that Unicode takes apart in one script and not in the other.
WHOLE_LETTERS = ("ÇҪ", "çҫ")
# Letters, and marks on letters, of one script that are never two letters of one language.
TWINS = ("əǝ", "gɡ")
MARK_TWINS = (
    *("\u0306\u030c", "\u0302\u0311", "\u0304\u0305", "\u0303\u0342", "\u0307\u0358"),
    *("\u0327\u0326", "\u0328\u0322", "\u0331\u0320", "\u0313\u0315"),
)
SCRIPTS = ("Latin", "Greek", "Cyrillic")
# So many different words are remembered before they are counted letter by letter.
MOST_WORDS = 50_000

_WORD = regex.compile(r"(?:\p{L}\p{M}*)+")
_LETTER = regex.compile(r"\p{L}\p{M}*")
_COMPOSABLE = regex.compile(r"\p{L}\p{M}+")
_SCRIPT_OF = [(script, regex.compile(rf"\p{{Script={script}}}")) for script in SCRIPTS]
_FIRST_TWIN = {other: group[0] for group in (*TWINS, *MARK_TWINS) for other in group}


@dataclass(frozen=True, slots=True)
class LookAlike:
    """A letter that looks like another one of the same texts, or of their script."""

    letter: str
    like: str
    count: int  # how often the letter was written
    like_count: int

    @property
    def is_composed(self) -> bool:
        """Whether both are one letter, written with one code or with several."""
        return unicodedata.normalize("NFC", self.letter) == self.like


class LookAlikes:
    """What is to be made of the words of one language."""

    def __init__(self, script: str, replaced: dict[str, str], found: tuple[LookAlike, ...]) -> None:
        self.found = found
        self._script = script
        self._replaced = replaced  # letters, decomposed
        self._unify_word = functools.lru_cache(maxsize=1 << 16)(self._respell)

    def unify(self, text: str) -> str:
        """Write the letters that only look like the language's own as the language's own."""
        if not self._replaced or (self._script == "Latin" and text.isascii()):
            return text
        decomposed = unicodedata.normalize("NFD", text)
        spelled = _WORD.sub(lambda match: self._unify_word(match.group()), decomposed)
        return unicodedata.normalize("NFC", spelled)

    def _respell(self, word: str) -> str:
        letters = _LETTER.findall(word)
        # A word that is of another script altogether is a foreign word, not a slip.
        own = len(letters) == 1 or any(_script(letter) == self._script for letter in letters)
        return "".join(
            self._replaced.get(letter, letter) if own or _script(letter) == self._script else letter
            for letter in letters
        )


class LetterCounter:
    """Counts the letters of one language's texts, each with the scripts of its word."""

    def __init__(self) -> None:
        self._words: Counter[str] = Counter()
        self._letters: Counter[tuple[str, frozenset[str], bool]] = Counter()
        self._decomposed: Counter[str] = Counter()

    def add(self, text: str) -> None:
        """Count a text as it is written."""
        if not text.isascii() and not unicodedata.is_normalized("NFC", text):
            for letter in _COMPOSABLE.findall(text):
                if unicodedata.normalize("NFC", letter) != letter:
                    self._decomposed[letter] += 1
        self._words.update(_WORD.findall(unicodedata.normalize("NFD", text)))
        if len(self._words) > MOST_WORDS:
            self._count_words()

    def _count_words(self) -> None:
        for word, count in self._words.items():
            letters = _LETTER.findall(word)
            scripts = frozenset(map(_script, letters))
            for letter in letters:
                self._letters[letter, scripts, len(letters) == 1] += count
        self._words.clear()

    def find(self) -> LookAlikes:
        """Return the look-alikes of what was counted."""
        self._count_words()
        by_script: Counter[str] = Counter()
        for (letter, _, _), count in self._letters.items():
            by_script[_script(letter)] += count
        script = by_script.most_common(1)[0][0] if by_script else ""
        # Only what stands among letters of the own script, or alone, can be a slip.
        counts: Counter[str] = Counter()
        for (letter, scripts, is_alone), count in self._letters.items():
            if script in scripts or is_alone:
                counts[letter] += count
        replaced = _across_scripts(counts, script)
        across = _sum_by_base(replaced, counts)
        totals: Counter[str] = Counter()
        for letter, count in counts.items():
            totals[replaced.get(letter, letter)] += count
        twins = _twins(totals)
        replaced = {letter: twins.get(own, own) for letter, own in replaced.items()} | twins
        found = across + [
            LookAlike(_nfc(letter), _nfc(like), totals[letter], totals[like])
            for letter, like in twins.items()
        ]
        found += [
            LookAlike(letter, _nfc(letter), count, counts[_nfd(letter)] - count)
            for letter, count in self._decomposed.items()
        ]
        order = sorted(found, key=lambda pair: (-pair.count, pair.letter))
        return LookAlikes(script, replaced, tuple(order))


def count_letters(texts: Iterable[str]) -> LookAlikes:
    """Find the look-alikes in texts of one language."""
    counter = LetterCounter()
    for text in texts:
        counter.add(text)
    return counter.find()


def code_points(letter: str) -> str:
    """Return a letter's codes for people to read: U+025B."""
    return " ".join(f"U+{ord(character):04X}" for character in letter)


def _across_scripts(counts: Counter[str], script: str) -> dict[str, str]:
    """Return the own letter for each letter of another script that looks like one."""
    own_letter: dict[str, str] = {}
    bases = _count_bases(counts)
    for group in (*ACROSS_SCRIPTS, *WHOLE_LETTERS):
        own = [letter for letter in group if _script(letter) == script]
        if own:
            best = max(own, key=lambda letter: bases[letter])
            own_letter |= {letter: best for letter in group if letter not in own}
    replaced = {}
    for letter in counts:
        whole = _nfc(letter)
        if whole in own_letter:
            replaced[letter] = _nfd(own_letter[whole])
        elif letter[0] in own_letter:
            like = own_letter[letter[0]] + letter[1:]
            # Latin letters take any mark; what others have with marks, Unicode has as one.
            if script == "Latin" or len(_nfc(like)) == 1:
                replaced[letter] = like
    return replaced


def _sum_by_base(replaced: dict[str, str], counts: Counter[str]) -> list[LookAlike]:
    """Return the letters that are replaced without their marks, counted with and without."""
    bases = _count_bases(counts)
    sums: Counter[tuple[str, str]] = Counter()
    for letter, like in replaced.items():
        sums[letter[0], like[0]] += counts[letter]
    return [LookAlike(letter, like, n, bases[like]) for (letter, like), n in sums.items()]


def _count_bases(counts: Counter[str]) -> Counter[str]:
    bases: Counter[str] = Counter()
    for letter, count in counts.items():
        bases[letter[0]] += count
    return bases


def _twins(counts: Counter[str]) -> dict[str, str]:
    """Return the more frequent one for each letter that has a twin in the same script."""
    alike: dict[str, list[str]] = {}
    for letter in counts:
        alike.setdefault("".join(_FIRST_TWIN.get(c, c) for c in letter), []).append(letter)
    twins: dict[str, str] = {}
    for letters in alike.values():
        if len(letters) > 1:
            best = min(letters, key=lambda letter: (-counts[letter], letter))
            twins |= {letter: best for letter in letters if letter != best}
    return twins


@functools.lru_cache(maxsize=1 << 14)
def _script(letter: str) -> str:
    """Return the script of a letter, as far as its look-alikes are known."""
    for script, pattern in _SCRIPT_OF:
        if pattern.match(letter[0]):
            return script
    return "other"


def _nfc(letter: str) -> str:
    return unicodedata.normalize("NFC", letter)


def _nfd(letter: str) -> str:
    return unicodedata.normalize("NFD", letter)
