"""Language codes as they come from tables, folders and options: BCP 47 tags, or refused."""

import functools
import re
from collections.abc import Iterable

from arborvox.errors import ArborvoxError
from arborvox.text.languages import KNOWN_LANGUAGES

LONGEST_CODE = 60  # characters; what RFC 5646 asks a program to have room for is 35
LONGEST_NAME = 40  # a longer word is not compared with the names of languages
NEAREST_SCORE = 75  # out of 100; below it, a name is another name
UNDETERMINED = "und"

_SUBTAGS = re.compile(r"[A-Za-z0-9]{1,8}(-[A-Za-z0-9]{1,8})*", re.ASCII)
# Language codes that Windows does not let a file have for its name, whatever its ending.
_RESERVED = frozenset({"aux", "con", "nul", "prn"})


def check_language(code: str, where: str) -> str:
    """Return a code as it was written, if it is a language tag; `where` names its place."""
    if not is_language(code):
        shown = ascii(code if len(code) <= LONGEST_NAME else f"{code[:LONGEST_NAME]}…")
        hint = _nearest(code)
        raise ArborvoxError(
            f"{where}: {shown} is no language code (BCP 47: sah, zh-CN, uz-Cyrl; for a variety "
            f"without a code x-name, such as x-village){f'; did you mean {hint}?' if hint else '.'}"
        )
    return code


def check_languages(codes: Iterable[str], where: str) -> None:
    """Check several codes that name the languages of one corpus, no language twice."""
    written: dict[str, str] = {}
    for code in codes:
        check_language(code, where)
        first = written.setdefault(code.lower(), code)
        if first != code:  # case says nothing in a tag, and on some disks nothing in a file's name
            raise ArborvoxError(f"{where}: {first} and {code} are one language; write one of them.")


def file_stem(code: str) -> str:
    """Return what the files of a language are called: its code, if Windows lets it be."""
    return f"{code}_" if code.lower() in _RESERVED else code  # no code has an underscore


@functools.lru_cache(maxsize=4096)  # a table repeats its codes
def is_language(code: str) -> bool:
    """Say whether a code is a language tag (BCP 47) of a language that there is."""
    import langcodes
    from langcodes.tag_parser import LanguageTagError

    if len(code) > LONGEST_CODE or not _SUBTAGS.fullmatch(code):
        return False
    base = code.split("-")[0].lower()
    try:
        tag = langcodes.Language.get(code, normalize=False)
        if base in ("x", UNDETERMINED):
            return True
        if tag.script and not langcodes.Language.make(script=tag.script).is_valid():
            return False
        # Normalized: langcodes lists `fi` as a language, and knows `fin` to be the same.
        return langcodes.Language.get(base).is_valid() or base in KNOWN_LANGUAGES
    except LanguageTagError:
        return False


def _nearest(code: str) -> str:
    """Return the code that was probably meant, with the language's name, or nothing."""
    from rapidfuzz import fuzz, process

    hyphened = code.strip().replace("_", "-")
    if is_language(hyphened):
        return hyphened
    word = hyphened.lower()
    if not 3 < len(word) <= LONGEST_NAME:  # short ones are codes, and each is near to many others
        return ""
    names = _names()
    if word in names:
        return f"{names[word]} ({word.title()})"
    # Languages that have a code of two letters are meant more often than others with a like name.
    for some in ([n for n, code in names.items() if len(code) == 2], names.keys()):
        found = process.extractOne(word, some, scorer=fuzz.ratio, score_cutoff=NEAREST_SCORE)
        if found:
            return f"{names[found[0]]} ({found[0].title()})"
    return ""


@functools.cache
def _names() -> dict[str, str]:
    """Return the code of each language's English names, as the registry of tags has them."""
    from langcodes.registry_parser import parse_registry

    names: dict[str, str] = {}
    for entry in parse_registry():  # type: ignore[no-untyped-call]
        if entry.get("Type") == "language" and ".." not in entry["Subtag"]:
            for name in entry["Description"]:
                names.setdefault(name.lower(), entry["Subtag"])
    return names
