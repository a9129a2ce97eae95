"""Laws of text normalization, and the spellings of real languages."""

import functools
import pickle
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arborvox.text import Normalizer
from arborvox.text.rules import RULES, Rule

LANGUAGES = [
    *("ca", "es", "fr", "it", "pt", "be", "cs", "pl", "ru", "uk", "ba", "ky", "tr", "tt", "uz"),
    *("hsb", "sl", "cv", "sah", "el", "lt", "he", "haw", "mt", "nl", "oc", "hi", "ml", "bn", "fa"),
    *("ar", "th", "zh-CN", "ja", "ko", "ka", "hy-AM", "yo", "uz-Cyrl", "sr", "x-x"),
    *("ro", "kab", "dv", "lo", "nan-tw", "mn-Mong", "ff-Adlm", "x-village"),
]
POLICIES = ("keep", "drop", "reject")
CASES = ("lower", "keep")


@functools.cache
def normalizer_of(language: str, policy: str = "reject", case: str = "lower") -> Normalizer:
    return Normalizer(language, digits=policy, foreign=policy, case=case)


# Characters that interact: letters with case and context, marks, joiners, apostrophes, look-alikes.
TROUBLE = (
    "aAiIİıoOgGlLnNeEсСаАіІəçĕӑΣσςßẞǅŀﬁ'’ʻʼ`·•-. \u00ad\u200b\u200c\u200d\u0301\u0307\u030c\u0327"
    "\u0323Jjक़न्യന്ত্कमیكهﻻـ๐ำกはｶﾞ漢한ᄀ\u1161१1½Ⅷ〇\ufffd\ud800\x00\x01\t\n\ufe0f\u20e3\u180eᠠ𝐀՞ա，。、ー\u0e4d\u0e32\u0e49ﷲ\u064e\u0670s"
)
sentences = st.one_of(
    st.text(st.characters(), max_size=30), st.text(st.sampled_from(TROUBLE), max_size=14)
)
languages, policies = st.sampled_from(LANGUAGES), st.sampled_from(POLICIES)
laws = settings(deadline=None, derandomize=True, max_examples=1000)


def is_allowed(character: str, policy: str) -> bool:
    category = unicodedata.category(character)
    is_number = category[0] == "N" and character != "〇"
    if is_number:
        return policy != "drop"
    return category[0] in "LM" or character in " '-·׳〇ﷲ\u200c\u200d\u180e"


@laws
@given(languages, policies, st.sampled_from(CASES), sentences)
def test_normalizing_twice_changes_nothing(
    language: str, policy: str, case: str, sentence: str
) -> None:
    normalizer = normalizer_of(language, policy, case)
    text, _ = normalizer(sentence)
    assert normalizer(text)[0] == text


@laws
@given(languages, policies, sentences)
def test_result_is_composed_lower_case_and_of_allowed_characters(
    language: str, policy: str, sentence: str
) -> None:
    text, _ = normalizer_of(language, policy)(sentence)
    assert unicodedata.is_normalized("NFC", text)
    assert text == " ".join(text.split())
    assert not any(map(str.isupper, text)) and not any(map(str.istitle, text))
    assert all(is_allowed(character, policy) for character in text)


@laws
@given(languages, policies, sentences)
def test_no_word_begins_with_a_combining_mark(language: str, policy: str, sentence: str) -> None:
    words = normalizer_of(language, policy)(sentence)[0].split()
    assert all(unicodedata.category(word[0])[0] != "M" for word in words)


@laws
@given(languages, policies, sentences)
def test_usable_text_has_something_to_say(language: str, policy: str, sentence: str) -> None:
    text, problem = normalizer_of(language, policy)(sentence)
    assert problem or any(map(str.isalnum, text))


@laws
@given(languages, sentences)
def test_fate_of_a_sentence_does_not_depend_on_those_before(language: str, sentence: str) -> None:
    assert normalizer_of(language)(sentence) == Normalizer(language)(sentence)


@pytest.mark.parametrize(
    "layer", ["'\u0301", "\u093c", " \u0301", "a\u00ad\u0301", "аb\u00ad", "l' "]
)
@pytest.mark.parametrize("language", ["hi", "fr", "ru", "x-x"])
def test_long_heaps_of_trouble_come_to_rest(language: str, layer: str) -> None:
    text, _ = normalizer_of(language)(layer * 1200)
    assert normalizer_of(language)(text)[0] == text


def test_normalizer_survives_pickling() -> None:
    original = Normalizer("uz", digits="drop", foreign="keep", case="keep")
    copy = pickle.loads(pickle.dumps(original))
    assert copy("Oʻn 10 ўн") == original("Oʻn 10 ўн") == ("Oʻn ўн", "")


@pytest.mark.parametrize(
    ("language", "sentence", "expected"),
    [
        ("tr", "İSTANBUL'DA ISI, i\u0307yi!", "istanbul'da ısı iyi"),
        ("az", "IŞIQ İL", "ışıq il"),
        ("tt-Latn", "Isı İl", "ısı il"),
        ("en", "İstanbul IS", "istanbul is"),
        ("de", "Straße, GROẞ", "straße groß"),
        ("el", "ΟΔΟΣ ΤΗΣ Σοφίας", "οδος της σοφίας"),
        ("ka", "ᲥᲐᲠᲗᲣᲚᲘ", "ქართული"),
        ("nl", "Ĳsland", "ijsland"),
    ],
)
def test_case_follows_the_language(language: str, sentence: str, expected: str) -> None:
    assert Normalizer(language)(sentence) == (expected, "")


@pytest.mark.parametrize(
    ("language", "sentence", "expected"),
    [
        *[("uz", f"O{mark}zbek tog{mark}i", "oʻzbek togʻi") for mark in "'’‘ʻʼ`´"],
        *[("uz", f"ma{mark}lum, obro{mark}.", "maʼlum obroʻ") for mark in "'’‘ʻʼ`´"],
        ("uz", "‘salom’ dedi, tog‘ 'marko'", "salom dedi togʻ marko"),
        *[("uk", f"П{mark}ять", "п'ять") for mark in "'’ʼ՚"],
        *[("be", f"аб{mark}ект", "аб'ект") for mark in "'’ʼ"],
        *[("ca", f"l{mark}home", "l'home") for mark in "'’ʼ"],
        ("fr", 'L’"Ami" d’ ici', "l'ami d'ici"),
        ("it", "E' un po' dell' «Orlando» 'ciao'", "è un po' dell'orlando ciao"),
        ("br", "C’hoar ar bec'h", "c'hoar ar bec'h"),
        ("haw", "'Ōlelo Hawai’i", "ʻōlelo hawaiʻi"),
        ("af", "'n Man; ŉ vrou", "'n man 'n vrou"),
        ("mt", "Ta' Malta ‘dar’", "ta' malta dar"),
        ("en", "'Tis the dogs' 'n' rock''n roll", "tis the dogs n rock'n roll"),
        ("he", "צה\"ל, ג'ירפה", "צהל ג׳ירפה"),
        ("zh", "他说:‘你好’吗", "他说你好吗"),
    ],
)
def test_apostrophes_are_unified_and_quotation_marks_removed(
    language: str, sentence: str, expected: str
) -> None:
    assert Normalizer(language)(sentence) == (expected, "")


@pytest.mark.parametrize(
    "spelling", ["col·legi", "COL·LEGI", "col•legi", "co\u0140legi", "COĿLEGI"]
)
def test_catalan_geminate_l_has_one_form(spelling: str) -> None:
    assert Normalizer("ca")(f"El {spelling} · i · • prou") == ("el col·legi i prou", "")


@pytest.mark.parametrize(
    ("language", "sentence", "expected"),
    [
        ("cv", "çĕнĕ хăвартăм, ÇӖР", "ҫӗнӗ хӑвартӑм ҫӗр"),
        ("ky", "жаӊы кѳл", "жаңы көл"),
        ("tt", "Җaваp əби", "җавар әби"),
        ("uk", "Вiн i Iван", "він і іван"),
        ("uz", "Аmmo Аmir", "ammo amir"),
        ("ro", "Şi ţara", "și țara"),
        ("fa", "كتابي", "کتابی"),
    ],
)
def test_letters_from_the_wrong_keyboard_are_put_right(
    language: str, sentence: str, expected: str
) -> None:
    assert Normalizer(language)(sentence) == (expected, "")


@pytest.mark.parametrize(
    ("language", "sentence", "expected"),
    [
        ("th", "สวัสดีครับ ทำไม?", "สวัสดีครับ ทำไม"),
        ("hi", "नमस्ते, दुनिया। क्\u200dया", "नमस्ते दुनिया क्\u200dया"),
        ("ml", "അവന്\u200d", "അവൻ"),
        ("bn", "হঠাত্\u200d", "হঠাৎ"),
        ("ar", "مـــرحبًا، يا ﻻعب!", "مرحبًا يا لاعب"),
        ("fa", "می\u200cخواهم\u200c.", "می\u200cخواهم"),
        ("ka", "გამარჯობა!", "გამარჯობა"),
        ("zh-CN", "你好，世界。二〇一九", "你好世界二〇一九"),
        ("ja", "ｶﾞｷﾞ、コーヒー", "ガギコーヒー"),
        ("ko", "안녕하세요, 세계", "안녕하세요 세계"),
        ("sah", "Саха тыла, үөрэҕэ.", "саха тыла үөрэҕэ"),
        ("hy-AM", "Ինչպե՞ս ես։", "ինչպես ես"),
        ("am", "ሰላም፡ዓለም።", "ሰላም ዓለም"),
        ("km", "សួស្តី\u200bពិភពលោក", "សួស្តីពិភពលោក"),
        ("yo", "Ẹ kú àárọ̀", "ẹ kú àárọ̀"),
        ("vi", "Tiếng Việt", "tiếng việt"),
    ],
)
def test_every_script_survives(language: str, sentence: str, expected: str) -> None:
    assert Normalizer(language)(sentence) == (unicodedata.normalize("NFC", expected), "")


@pytest.mark.parametrize(
    ("language", "sentence", "expected"),
    [
        ("fr", "est-ce — vraiment… «oui»?", "est-ce vraiment oui"),
        ("pt", "disse\u2011me\u00a0que", "disse-me que"),
        ("es", "co\u00adche\u200b ❤️ & ¿sí?", "coche sí"),
        ("uk", "за\u0301мок", "замок"),
        ("ca", "catal\u031fà", "català"),
    ],
)
def test_punctuation_symbols_and_stray_marks_go(
    language: str, sentence: str, expected: str
) -> None:
    assert Normalizer(language)(sentence) == (expected, "")


@pytest.mark.parametrize("number", ["25", "٢٥", "२५", "２５", "½", "Ⅷ", "²"])
def test_digits_of_any_script_follow_the_policy(number: str) -> None:
    sentence = f"в {number} году"
    assert Normalizer("ru")(sentence)[1] == "digits"
    assert Normalizer("ru", digits="drop")(sentence) == ("в году", "")
    text, problem = Normalizer("ru", digits="keep")(sentence)
    assert problem == "" and len(text.split()) == 3


def test_foreign_letters_follow_the_policy() -> None:
    sentence = "Из Microsoft пишут"
    assert Normalizer("ru")(sentence) == ("из microsoft пишут", "foreign script (Latin)")
    assert Normalizer("ru", foreign="drop")(sentence) == ("из пишут", "")
    assert Normalizer("ru", foreign="keep")(sentence) == ("из microsoft пишут", "")
    assert Normalizer("uz")("писиб ётмагай")[1] == "foreign script (Cyrillic)"
    assert Normalizer("uz-Cyrl")("писиб ётмагай") == ("писиб ётмагай", "")
    assert Normalizer("x-x")("Из Microsoft ไทย")[1] == ""


@pytest.mark.parametrize("sentence", ["", " \t", "?!…", "\u200d", "\u0301", "❤️"])
def test_sentences_without_letters_are_refused(sentence: str) -> None:
    assert Normalizer("es")(sentence) == ("", "no letters left")


@pytest.mark.parametrize("sentence", ["ma\ufffdana", "ma\udcf1ana"])
def test_broken_encoding_is_refused(sentence: str) -> None:
    assert Normalizer("es")(sentence) == ("ma ana", "broken encoding")


# The alphabets that normalized Common Voice prompts should have, loan letters included.
ALPHABETS = {
    "ba": "абвгдежзийклмнопрстуфхцчшщъыьэюяёғҙҡңҫүһәө",
    "be": "'абвгдежзйклмнопрстуфхцчшыьэюяёіў",
    "ky": "абвгдежзийклмнопрстуфхцчшщъыьэюяёңүө",
    "ru": "'абвгдежзийклмнопрстуфхцчшщъыьэюяё",
    "tr": "'abcdefghijklmnopqrstuvwxyzâçîöûüğış",
    "tt": "абвгдежзийклмнопрстуфхцчшщъыьэюяёҗңүһәө",
    "uk": "'абвгдежзийклмнопрстуфхцчшщьюяєіїґ",
    "uz": "abcdefghijklmnopqrstuvwxyzƣʙʻʼ",
}


@pytest.mark.real_data
@pytest.mark.parametrize("language", sorted(ALPHABETS))
def test_real_prompts_have_the_alphabet_of_their_language(data_root: Path, language: str) -> None:
    normalize = Normalizer(language)
    lines = (data_root / "text" / f"{language}.txt").read_text(encoding="utf-8").splitlines()
    results = [normalize(line) for line in lines]
    usable = [text for text, problem in results if not problem]
    assert set("".join(usable)) <= set(ALPHABETS[language] + " ")
    assert len(usable) >= 0.997 * len(lines)
    assert all(normalize(text) == (text, "") for text in usable)


SUBTAGS = {"Thaana": "Thaa", "Thai": "Thai", "Lao": "Laoo", "Han": "Hani", "Katakana": "Kana"}
ROWS = [
    (rule, language, sentence, expected)
    for rule in RULES
    for language in (*rule.languages, *(f"und-{SUBTAGS.get(s, s[:4])}" for s in rule.scripts))
    for sentence, expected in rule.examples.items()
]


@pytest.mark.parametrize(("rule", "language", "sentence", "expected"), ROWS)
def test_each_rule_does_what_its_examples_say(
    rule: Rule, language: str, sentence: str, expected: str
) -> None:
    assert rule.source
    assert Normalizer(language, foreign="keep")(sentence) == (expected, "")


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: " ".join((*rule.languages, *rule.scripts)))
def test_without_its_rule_a_language_loses_what_the_examples_show(rule: Rule) -> None:
    plain = Normalizer("en", foreign="keep")
    assert any(plain(sentence)[0] != expected for sentence, expected in rule.examples.items())


def test_the_rules_are_of_their_own_language_alone() -> None:
    assert Normalizer("es")("dímelo, s-a; est-ce") == ("dímelo s a est ce", "")
    assert Normalizer("ko")("네, 네") == ("네 네", "")
    assert Normalizer("zh", foreign="keep")("你好, Hello,world 好") == ("你好 hello world 好", "")
    assert Normalizer("zh")("你好 世界") == ("你好 世界", ""), "a space that was typed stays"
    assert Normalizer("th")("ใช่, ครับ") == ("ใช่ ครับ", "")


@pytest.mark.parametrize(
    ("language", "sentence", "expected"),
    [
        ("mn-Mong", "ᠮᠣᠩᠭᠣᠯ ᠪᠢᠴᠢᠭ᠃", "ᠮᠣᠩᠭᠣᠯ ᠪᠢᠴᠢᠭ"),
        ("ff-Adlm", "𞤆𞤵𞤤𞤢𞤪, 𞤆", "𞤨𞤵𞤤𞤢𞤪 𞤨"),
        ("pa-Arab", "پنجابی", "پنجابی"),
        ("zh-Hant", "繁體，字", "繁體字"),
        ("ja-Jpan", "漢字カナ", "漢字カナ"),
        ("x-village-Mong", "abc", "abc"),
    ],
)
def test_a_script_that_the_tag_names_is_native(language: str, sentence: str, expected: str) -> None:
    assert Normalizer(language)(sentence) == (expected, "")


def test_a_script_that_the_tag_names_makes_others_foreign() -> None:
    assert Normalizer("mn-Mong")("монгол")[1] == "foreign script (Cyrillic)"
    assert Normalizer("mn")("ᠮᠣᠩᠭᠣᠯ")[1] == "foreign script (Mongolian)"
    assert Normalizer("dv")("الله")[1] == "foreign script (Arabic)"


def test_harakat_are_kept_or_dropped_as_asked() -> None:
    sentence = "مُحَمَّدٌ رَسُولُ آلِ هٰذا"
    assert Normalizer("ar")(sentence) == (unicodedata.normalize("NFC", sentence), "")
    drop = Normalizer("ar", harakat="drop")
    assert drop(sentence) == ("محمد رسول آل هذا", "")
    assert pickle.loads(pickle.dumps(drop))(sentence) == drop(sentence)
