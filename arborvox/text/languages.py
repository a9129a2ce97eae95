"""What the normalizer knows about each language: its scripts and the habits of its spelling."""

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import regex

from arborvox.text.rules import RULES, Clitics

# Languages by the script they are written in (ISO 639 codes, as Common Voice names them).
_LANGUAGES_OF_SCRIPT = {
    "Latin": """
        ca es fr it pt cs pl hsb dsb sl tr uz en de nl sv da nn nb no is fo fi et lv ltg lt hu ro sk
        hr bs sq eu gl ast oc an ext sc scn lij vec nap co fur rm lb fy af ga gd gv cy br kw mt eo
        ia io vo tok kab rw rn sw lg ha ig yo zu xh st tn ts nso ss ve nr sn ny om so wo ff bm ee
        tw ak ln kg mg id ms jv su min ace ban mad tl fil ceb ilo war haw mi sm to ty vi az crh gag
        tk kmr ku lzz diq smj se fkv olo vot vro izh gn quy qu ay nah nan tpi pap ht
    """,
    "Cyrillic": """
        ru uk be rue bg mk ba ky tt cv sah kk mn kjh alt tyv krc nog kaa kum mhr mrj myv mdf udm kv
        koi os ab ady kbd ce inh av lez dar lbe tg bxr xal kca mns cu
    """,
    "Arabic": "ar aeb ary arz apc fa ur ug ckb ps sd skr ks bal lrc azb prs",
    "Devanagari": "hi mr ne npi mai bho awa sa kok doi brx bgc new",
    "Bengali": "bn as bpy",
    "Gurmukhi": "pa",
    "Gujarati": "gu",
    "Oriya": "or",
    "Tamil": "ta",
    "Telugu": "te",
    "Kannada": "kn tcy",
    "Malayalam": "ml",
    "Sinhala": "si",
    "Thai": "th",
    "Lao": "lo",
    "Khmer": "km",
    "Myanmar": "my shn mnw",
    "Tibetan": "bo dz",
    "Georgian": "ka xmf",
    "Armenian": "hy hyw",
    "Greek": "el pnt",
    "Hebrew": "he yi lad",
    "Ethiopic": "am ti tig gez",
    "Thaana": "dv",
    "Tifinagh": "zgh",
    "Cherokee": "chr",
    "Hangul": "ko",
    "Han": "zh yue wuu hak lzh",
    "Ol_Chiki": "sat",
    "Nko": "nqo",
}
# Languages that mix scripts inside one sentence, or are written in either of two.
_LANGUAGES_OF_SEVERAL_SCRIPTS = {
    "ja": ("Han", "Hiragana", "Katakana"),
    "nan": ("Latin", "Han"),
    "sr": ("Cyrillic", "Latin"),
    "sh": ("Cyrillic", "Latin"),
}
_SCRIPTS = {
    language: (script,)
    for script, languages in _LANGUAGES_OF_SCRIPT.items()
    for language in languages.split()
} | _LANGUAGES_OF_SEVERAL_SCRIPTS
KNOWN_LANGUAGES = frozenset(_SCRIPTS)

SCRIPT_NAMES = (*_LANGUAGES_OF_SCRIPT, "Hiragana", "Katakana")
UNSPACED_SCRIPTS = ("Han", "Hiragana", "Katakana", "Thai", "Lao", "Khmer", "Myanmar", "Tibetan")
BRAHMIC_SCRIPTS = (
    *("Devanagari", "Bengali", "Gurmukhi", "Gujarati", "Oriya", "Tamil", "Telugu", "Kannada"),
    *("Malayalam", "Sinhala", "Khmer", "Myanmar", "Tibetan"),
)

# ISO 15924 subtags that choose one of a language's scripts (uz-Cyrl, sr-Latn) and are no script of
# Unicode: styles of one, and several together. For all others Unicode has the same four letters.
_NO_SCRIPTS = ("zinh", "zyyy", "zzzz")  # inherited, common, unknown
_SUBTAGS = """
    latn cyrl arab deva beng guru gujr orya taml telu knda mlym sinh thai laoo khmr mymr tibt geor
    armn grek hebr ethi thaa tfng cher hang hani olck nkoo hira kana
"""
_SCRIPT_OF_SUBTAG = dict(zip(_SUBTAGS.split(), SCRIPT_NAMES, strict=True))
_SCRIPTS_OF_SUBTAG = {
    "hans": ("Han",),
    "hant": ("Han",),
    "hanb": ("Han", "Bopomofo"),
    "jpan": ("Han", "Hiragana", "Katakana"),
    "hrkt": ("Hiragana", "Katakana"),
    "kore": ("Hangul", "Han"),
    "aran": ("Arabic",),
    "cyrs": ("Cyrillic",),
    "latf": ("Latin",),
    "latg": ("Latin",),
    "syre": ("Syriac",),
    "syrj": ("Syriac",),
    "syrn": ("Syriac",),
}

# I and i are two letters here, each with its own capital: I ı, İ i.
_DOTTED_I_LANGUAGES = frozenset({"tr", "az", "crh", "gag", "kk", "tt", "ba", "lzz"})

# Every accented letter has a code of its own here; an accent that is left over after NFC marks the
# stress, as dictionaries do, or has slipped in.
_COMPOSED = """
    ca es fr it pt gl ast oc ro en de nl fy af sv da nb nn is fi et hu lv eu cy br ga mt
    cs sk pl hsb dsb sl hr bs sr ru uk be bg mk tr az uz tk crh gag tt ba ky kk cv sah mn el
"""
_COMPOSED_LANGUAGES = frozenset(_COMPOSED.split())

# Letters that only look like those of the language; each of them is always a slip of the keyboard.
_WRONG_LETTERS: dict[str, dict[str, str]] = {
    "cv": {"ă": "ӑ", "ĕ": "ӗ", "ç": "ҫ", "ÿ": "ӳ", "ӱ": "ӳ"},
    "ky": {"ӊ": "ң", "ѳ": "ө"},
    "tt": {"ə": "ә", "ӊ": "ң", "ѳ": "ө"},
    "ba": {"ə": "ә", "ӊ": "ң", "ѳ": "ө"},
    "kk": {"ə": "ә", "ӊ": "ң", "ѳ": "ө"},
    "sah": {"ӊ": "ҥ", "ѳ": "ө"},
    "az": {"ә": "ə"},
    "ro": {"ş": "ș", "ţ": "ț"},
    "kab": {"γ": "ɣ", "ε": "ɛ"},
    "fa": {"ي": "ی", "ى": "ی", "ك": "ک"},
    "ur": {"ي": "ی", "ى": "ی", "ك": "ک"},
    "ckb": {"ي": "ی", "ى": "ی", "ك": "ک"},
    # Points of abbreviation stand inside the word: צה״ל, often typed with a plain quotation mark.
    "he": {'"': "", "״": ""},
    "yi": {'"': "", "״": ""},
}

# Letters that slip in from a neighboring keyboard, put right only inside a word of the own script.
_LATIN_TO_CYRILLIC = dict(zip("aceopxyABCEHKMOPTXY", "асеорхуАВСЕНКМОРТХУ", strict=True))
_LATIN_TO_GREEK = dict(zip("ovABEHIKMNOPTXYZ", "ονΑΒΕΗΙΚΜΝΟΡΤΧΥΖ", strict=True))
_CYRILLIC_TO_LATIN = dict(zip("асеорхуАСЕНКМОРТХ", "aceopxyACEHKMOPTX", strict=True))
_MORE_LATIN_TO_CYRILLIC = {
    "uk": {"i": "і", "I": "І", "ï": "ї", "Ï": "Ї"},
    "be": {"i": "і", "I": "І"},
    "kk": {"i": "і", "I": "І", "h": "һ"},
    "kv": {"i": "і", "I": "І", "ö": "ӧ", "Ö": "Ӧ"},
    "tt": {"h": "һ"},
    "ba": {"h": "һ"},
    "sah": {"h": "һ"},
    "mk": {"j": "ј", "J": "Ј", "s": "ѕ", "S": "Ѕ"},
}


@dataclass(frozen=True)
class Orthography:
    """How a language is written, as far as normalization needs to know."""

    scripts: tuple[str, ...] = ()  # empty: unknown, and then no letter is foreign
    dotted_i: bool = False
    composed: bool = False  # no combining mark is left in this spelling after NFC
    wrong_letters: Mapping[str, str] = field(default_factory=dict)
    lookalikes: Mapping[str, str] = field(default_factory=dict)
    apostrophe: str = "'"
    turned_after: str = ""  # letters after which the apostrophe is ʻ, part of the letter
    # Patterns of words that keep an apostrophe at their edge, and of those that lean on the next.
    leading: str = ""
    trailing: str = ""
    elided: str = ""
    middle_dot: str = ""  # letters between which a middle dot belongs
    respelled: Mapping[str, str] = field(default_factory=dict)  # whole words
    clitics: Clitics | None = None  # words that are joined by a hyphen; other hyphens are spaces
    own_signs: str = ""  # characters of other scripts that are written here as they are
    reordered: tuple[tuple[str, str], ...] = ()  # patterns of marks, and their one spelling
    joined: bool = False  # no space where a comma was


_DUTCH = Orthography(leading="n|t|s|k|m|r|ns")
_OKINA = Orthography(apostrophe="ʻ", leading="[aeiouāēīōū].*")
_HABITS = {
    "uz": Orthography(apostrophe="ʼ", turned_after="og", trailing=".*[og]"),
    "haw": _OKINA,
    "to": _OKINA,
    "sm": _OKINA,
    "ty": _OKINA,
    "nl": _DUTCH,
    "af": _DUTCH,
    "fy": _DUTCH,
    "cy": Orthography(leading="n|r|w|m|u|i|ch|th|na|ma|dy|dyn|dw|sdim|chos|ond|run|di|da"),
    "mt": Orthography(trailing=".*[aeiouàèìòù]"),
    "it": Orthography(
        trailing="po|mo|va|fa|da|di|sta|de|be|ca|to|so|vo",
        elided="l|d|c|s|m|t|v|n|gl|un|all|dell|nell|sull|dall|coll|quell|quest|bell|sant|tutt|"
        "quant|senz|dov|com|cos|mezz|anch|nient|ciascun|nessun|alcun|buon",
        respelled={"e'": "è", "E'": "È"},
    ),
    "fr": Orthography(
        elided="l|d|j|m|t|s|n|c|qu|jusqu|lorsqu|puisqu|quoiqu|quelqu|presqu|aujourd|entr"
    ),
    "ca": Orthography(elided="l|d|m|t|s|n", middle_dot="l"),
    "oc": Orthography(elided="l|d|m|t|s|n|qu", middle_dot="lnsh"),
    "he": Orthography(apostrophe="׳", trailing=".*[גזצץתדטחעור]"),
}


def orthography(language: str) -> Orthography:
    """What is known of a language by its code (uz, pt-BR, uz-Cyrl); defaults for unknown ones."""
    base, *subtags = language.lower().replace("_", "-").split("-")
    scripts = _chosen_scripts([base, *subtags]) or _SCRIPTS.get(base, ())
    lookalikes: dict[str, str] = {}
    if "Cyrillic" in scripts and "Latin" not in scripts:
        lookalikes = _LATIN_TO_CYRILLIC | _MORE_LATIN_TO_CYRILLIC.get(base, {})
    elif "Latin" in scripts and "Cyrillic" not in scripts:
        lookalikes = _CYRILLIC_TO_LATIN
    elif "Greek" in scripts:
        lookalikes = _LATIN_TO_GREEK
    special: dict[str, Any] = {}
    for rule in RULES:
        if rule.holds(base, scripts):
            special |= rule.sets
    return replace(
        _HABITS.get(base, Orthography()),
        **special,
        scripts=scripts,
        composed=base in _COMPOSED_LANGUAGES,
        dotted_i=base in _DOTTED_I_LANGUAGES,
        wrong_letters=_WRONG_LETTERS.get(base, {}),
        lookalikes=lookalikes,
    )


def _chosen_scripts(tags: list[str]) -> tuple[str, ...]:
    """Return the script that a tag names after its language: any that Unicode has."""
    for tag in tags:
        if len(tag) == 1:  # what follows is private, or an extension
            break
        if tag in _SCRIPTS_OF_SUBTAG:
            return _SCRIPTS_OF_SUBTAG[tag]
        if tag in _SCRIPT_OF_SUBTAG:
            return (_SCRIPT_OF_SUBTAG[tag],)
        if len(tag) == 4 and tag.isalpha() and tag not in _NO_SCRIPTS:
            with contextlib.suppress(regex.error):  # a script that has no characters yet
                regex.compile(rf"\p{{Script={tag}}}")
                return (tag.capitalize(),)
    return ()
