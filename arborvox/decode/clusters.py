"""What a reader sees as one character, by the standard library alone.

Where `regex` is installed, its \\X and its scripts are asked; `arborvox-runtime` does without.
"""

import bisect
import unicodedata
from collections.abc import Callable

# Blocks of the scripts that have no spaces between words, first and last code point: Thai, Lao,
# Myanmar, Khmer, Han and its radicals, kana. Tibetan's syllables are apart.
_UNSPACED = (
    (0x0E01, 0x0E5B), (0x0E81, 0x0EDF), (0x1000, 0x109F), (0x1780, 0x17F9), (0x19E0, 0x19FF),
    (0x2E80, 0x2FD5), (0x3005, 0x3007), (0x3021, 0x3029), (0x3038, 0x303B), (0x3041, 0x30FF),
    (0x31F0, 0x31FF), (0x3400, 0x4DBF), (0x4E00, 0x9FFF), (0xA9E0, 0xA9FE), (0xAA60, 0xAA7F),
    (0xF900, 0xFAD9), (0xFF66, 0xFF9D), (0x1B000, 0x1B168), (0x20000, 0x33479),
)  # fmt: skip
_FIRST = [first for first, _ in _UNSPACED]
_JOINERS = "\u200c\u200d"
_WRITTEN_BEHIND = "\u0e33\u0eb3"  # Thai and Lao am: letters by their category, marks to a reader


def plain_clusters(text: str) -> list[str]:
    """Cut a text into letters with their marks."""
    clusters: list[str] = []
    for character in text:
        is_mark = (
            unicodedata.category(character) in ("Mn", "Me", "Mc")
            or character in _JOINERS
            or character in _WRITTEN_BEHIND
        )
        if clusters and (is_mark or clusters[-1].endswith("\u200d")):
            clusters[-1] += character
        else:
            clusters.append(character)
    return clusters


def plainly_unspaced(cluster: str) -> bool:
    """Say whether a cluster begins with a letter of a script that has no spaces."""
    code = ord(cluster[0])
    place = bisect.bisect_right(_FIRST, code) - 1
    return place >= 0 and code <= _UNSPACED[place][1]


def cluster_functions() -> tuple[Callable[[str], list[str]], Callable[[str], bool]]:
    """Return how texts are cut into clusters, and how unspaced ones are told."""
    try:
        import regex

        from arborvox.text.languages import UNSPACED_SCRIPTS
    except ModuleNotFoundError:
        return plain_clusters, plainly_unspaced
    # Tibetan has no spaces, but its syllables are apart: the normalizer makes their dots spaces.
    scripts = "".join(rf"\p{{Script={name}}}" for name in UNSPACED_SCRIPTS if name != "Tibetan")
    unspaced = regex.compile(rf"[{scripts}ー]")
    return regex.compile(r"\X").findall, lambda cluster: unspaced.match(cluster) is not None
