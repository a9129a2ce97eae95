"""One character at a time: what becomes of it in a language, worked out once and then looked up."""

import unicodedata

import regex

from arborvox.text.languages import SCRIPT_NAMES, Orthography

# Stands before every character that its neighbors must be asked about. As an input character it is
# a control character and becomes a space, so it can only come from the table.
LOOK = "\x00"
APOSTROPHE = "'"
MIDDLE_DOT = "·"
BROKEN = "\ufffd"
HYPHEN = "-"
GAP = "\x02"  # punctuation where words stand without spaces
DELETED = "\x01"  # a character that goes without a trace, after which its neighbors may compose
JOINERS = "\u200c\u200d\u180e"  # zero-width non-joiner and joiner, Mongolian vowel separator

_APOSTROPHES = frozenset("'`´‘’‛′‵ʹʻʼʽʾʿˊˋ՚＇｀\u05f3")
_MIDDLE_DOTS = frozenset("·•‧∙⋅・･")
# Tatweel stretches a word, the Armenian marks of tone stand on a vowel inside it.
_VANISHING = frozenset("\u0640՛՜՞՟")
_PHONETIC_SIGNS = frozenset("ːˑˈˌ")  # letters by category, but a colon or a comma where they occur
_HYPHENS = frozenset("-\u2010\u2011")
_IDEOGRAPHIC_ZERO = "〇"
# Short vowels, their absence, doubling, and the marks of recitation; never a hamza or a madda.
_HARAKAT = frozenset(
    map(chr, (*range(0x64B, 0x653), 0x670, *range(0x6D6, 0x6DD), *range(0x6DF, 0x6E5)))
) | frozenset(map(chr, (0x6E7, 0x6E8, *range(0x6EA, 0x6EE))))
_PRESENTATION_FORMS = (
    "<wide>",
    "<narrow>",
    "<font>",
    "<initial>",
    "<medial>",
    "<final>",
    "<isolated>",
)
_LIGATURES = frozenset("ŀĿĳĲŉſªºǄǅǆǇǈǉǊǋǌ") | {chr(code) for code in range(0xFB00, 0xFB18)}
# Accents that no script owns: they may compose with a letter that has just become lower case.
_WANDERING_MARK = regex.compile(r"[\p{M}&&\p{Script=Inherited}]", flags=regex.VERSION1)
_IGNORABLE = regex.compile(r"\p{Default_Ignorable_Code_Point}")


class CharacterTable(dict[int, str]):
    """A table for `str.translate` that fills itself as characters turn up."""

    def __init__(self, orthography: Orthography, *, lower: bool, harakat: bool = True) -> None:
        super().__init__()
        self._harakat = harakat
        self._orthography = orthography
        self._lower = lower
        self.has_marks = False  # whether a mark has turned up that is not looked at more closely
        scripts = "".join(rf"\p{{Script={script}}}" for script in orthography.scripts)
        # Common and Inherited: characters such as U+0301 or U+30FC that belong to many scripts.
        self._native = regex.compile(
            rf"[{scripts}\p{{Script=Common}}\p{{Script=Inherited}}]" if scripts else "(?s:.)"
        )

    def __missing__(self, code: int) -> str:
        self[code] = spelled = self._spell(chr(code))
        return spelled

    def is_native(self, character: str) -> bool:
        """Whether the language's scripts have this character."""
        return self._native.match(character) is not None

    def _spell(self, character: str) -> str:
        category = unicodedata.category(character)
        if character in _APOSTROPHES:
            return LOOK + APOSTROPHE
        if character in _MIDDLE_DOTS and self._orthography.middle_dot:
            return LOOK + MIDDLE_DOT
        if character in JOINERS:
            return LOOK + character
        if character == BROKEN or category == "Cs":
            return LOOK + BROKEN
        if character in _HYPHENS and self._orthography.clitics:
            return LOOK + HYPHEN
        if character in self._orthography.own_signs:
            return character
        if character in _HARAKAT and not self._harakat:
            return LOOK + DELETED
        if character in self._orthography.wrong_letters:
            return self._orthography.wrong_letters[character] or LOOK + DELETED
        if character in _VANISHING or category in ("Cf", "Me") or _IGNORABLE.match(character):
            return LOOK + DELETED
        if self._is_presentation_form(character, category):
            return unicodedata.normalize("NFKC", character).translate(self)
        if character == _IDEOGRAPHIC_ZERO:
            category = "Lo"
        if category[0] not in "LMN" or character in _PHONETIC_SIGNS:
            return LOOK + GAP if self._orthography.joined and category[0] in "PS" else " "
        lowered = self._lower_case(character) if self._lower else character
        if lowered != character:
            return lowered.translate(self)
        if _WANDERING_MARK.match(character):
            return LOOK + (DELETED if self._orthography.composed else character)
        if category[0] == "N" or not self.is_native(character):
            return LOOK + character
        self.has_marks |= category[0] == "M"
        return character

    def _lower_case(self, character: str) -> str:
        if character == "İ":
            return "i"  # elsewhere lower() gives i and a second dot, a unit that no language has
        if character == "I" and self._orthography.dotted_i:
            return "ı"
        return character.lower()

    def _is_presentation_form(self, character: str, category: str) -> bool:
        if character in _LIGATURES:
            return True
        if category[0] not in "LMN":
            return False
        shape = unicodedata.decomposition(character).partition(" ")[0]
        has_no_lower_case = category == "Lu" and character.lower() == character
        return shape in _PRESENTATION_FORMS or has_no_lower_case


def script_name(character: str) -> str:
    """The script of a letter, for people to read."""
    for script in SCRIPT_NAMES:
        if regex.match(rf"\p{{Script={script}}}", character):
            return script.replace("_", " ")
    return unicodedata.name(character, "unknown").split()[0].capitalize()
