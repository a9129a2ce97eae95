"""Rules of single orthographies: a row each, with where it is written down and what it does."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Rule:
    """What is special about some languages, or about all that are written in some scripts."""

    sets: Mapping[str, Any]  # fields of an Orthography
    source: str
    examples: Mapping[str, str]  # a sentence, and what becomes of it
    languages: tuple[str, ...] = ()
    scripts: tuple[str, ...] = field(default=())

    def holds(self, language: str, scripts: tuple[str, ...]) -> bool:
        """Say whether a language has this rule, by its own code or by how it is written."""
        return language in self.languages or not set(self.scripts).isdisjoint(scripts)


@dataclass(frozen=True)
class Clitics:
    """Short words that lean on another with a hyphen: all before the stem, or all after it."""

    before: str = ""  # patterns of whole pieces
    after: str = ""


_TONES, _LAO_TONES = "\u0e48-\u0e4b", "\u0ec8-\u0ecb"

RULES = (
    Rule(
        languages=("ro",),
        sets={
            "clitics": Clitics(
                before="s|m|l|n|c|d|p|ș|v|i|o|mi|ți|și|ni|vi|li|le|te|ne|nu|ce|de|să|că|ca|pe|"
                "într|dintr|printr",
                after="mi|ți|i|l|o|le|ne|ni|vă|vi|v|se|și|s|te|mă|m|li|n|a|ai|am|ați|au|aș|ar|or|"
                "oi|om|un|una|unul|ul|ului|uri|urile|urilor|lea",
            )
        },
        source="Academia Română, Dicționarul ortografic (DOOM 3, 2021), the hyphen",
        examples={
            "S-a dus într-o zi, dându-mi-l.": "s-a dus într-o zi dându-mi-l",
            "Vântul nord-est -- site‑ul": "vântul nord est site-ul",
        },
    ),
    Rule(
        languages=("ca",),
        sets={
            "clitics": Clitics(
                after="(?:me|te|se|ho|hi|ne|en|lo|la|los|les|li|nos|vos|us)(?:'(?:n|l|ls|m|t|s|ns))?"
                "|[mtsnl]'(?:en|hi|ho)"
            )
        },
        source="Institut d'Estudis Catalans, Ortografia catalana (2017), the hyphen with pronouns",
        examples={
            "Anar-se'n i donar-los-hi, menja-t’ho": "anar-se'n i donar-los-hi menja-t'ho",
            "sud-est": "sud est",
        },
    ),
    Rule(
        languages=("pt",),
        sets={
            "clitics": Clitics(
                after="me|te|se|lhes?|[nv]os|[ao]s?|l[ao]s?|n[ao]s?|[mt][ao]s?|lh[ao]s?|"
                "ei|ás|á|emos|eis|ão|ia|ias|íamos|íeis|iam"
            )
        },
        source="Acordo Ortográfico da Língua Portuguesa (1990), Base XVII",
        examples={
            "Disse-me; dar-lhe-ia, fá-lo.": "disse-me dar-lhe-ia fá-lo",
            "guarda-chuva, dia-a-dia": "guarda chuva dia a dia",
        },
    ),
    Rule(
        languages=("gl",),
        sets={"clitics": Clitics(after="l[ao]s?")},
        source="Real Academia Galega, Normas ortográficas (2003), the second form of the article",
        examples={"Come-lo caldo, sur-leste": "come-lo caldo sur leste"},
    ),
    Rule(
        languages=("fr",),
        sets={
            "clitics": Clitics(
                after="je|tu|ils?|elles?|on|nous|vous|ce|moi|toi|lui|leur|l[ea]s?|y|en|t|[mt]'en|ci|là"
            )
        },
        source="Dictionnaire de l'Académie française (9th ed.), trait d'union",
        examples={
            "Est-ce celui-ci? A-t-il dit: va-t’en!": "est-ce celui-ci a-t-il dit va-t'en",
            "arc-en-ciel, week-end": "arc en ciel week end",
        },
    ),
    Rule(
        languages=("oc",),
        sets={"clitics": Clitics(after="me|te|se|l[ao]s?|li|lor|ne|i|[nv]os")},
        source="L. Alibèrt, Gramatica occitana (1935), pronouns after the verb",
        examples={"Dona-me-la, sud-èst": "dona-me-la sud èst"},
    ),
    Rule(
        languages=("kab",),
        sets={"clitics": Clitics(after=r"[^\W\d_].*")},  # it has no other hyphens
        source="Inalco, Propositions pour la notation usuelle à base latine du berbère (1996)",
        examples={"Yefka-yas-t-id i baba-s -": "yefka-yas-t-id i baba-s"},
    ),
    Rule(
        languages=("iba",),
        sets={"clitics": Clitics(after=r"[^\W\d_].*")},  # it has no other hyphens
        source="S. S. Juan and others, the Iban corpus (2015), as its lexicon has words said twice",
        examples={"Undang-undang menua - siku-siku": "undang-undang menua siku-siku"},
    ),
    Rule(
        scripts=("Thaana",),
        sets={"own_signs": "ﷲ"},
        source="Unicode, ScriptExtensions.txt: U+FDF2 is used with Arabic and Thaana letters",
        examples={"ﷲ އަށް": "ﷲ އަށް"},
    ),
    Rule(
        scripts=("Thai",),
        sets={
            "reordered": (
                (f"\u0e4d([{_TONES}]*)\u0e32", "\\1\u0e33"),
                (f"\u0e33([{_TONES}]+)", "\\1\u0e33"),
            )
        },
        source="The Unicode Standard, Southeast Asia: Thai, sara am and its tone mark",
        examples={
            "ท\u0e4d\u0e32ไม": "ท\u0e33ไม",
            "น\u0e4d\u0e49\u0e32": "น\u0e49\u0e33",
            "น\u0e49\u0e4d\u0e32": "น\u0e49\u0e33",
            "น\u0e33\u0e49": "น\u0e49\u0e33",
        },
    ),
    Rule(
        scripts=("Lao",),
        sets={
            "reordered": (
                (f"\u0ecd([{_LAO_TONES}]*)\u0eb2", "\\1\u0eb3"),
                (f"\u0eb3([{_LAO_TONES}]+)", "\\1\u0eb3"),
            )
        },
        source="The Unicode Standard, Southeast Asia: Lao, vowel am",
        examples={
            "ນ\u0ecd\u0ec9\u0eb2": "ນ\u0ec9\u0eb3",
            "ນ\u0ec9\u0ecd\u0eb2": "ນ\u0ec9\u0eb3",
            "ຄ\u0ecd\u0eb2": "ຄ\u0eb3",
        },
    ),
    Rule(
        scripts=("Han", "Hiragana", "Katakana"),
        sets={"joined": True},
        source="W3C, Requirements for Chinese (clreq) and Japanese Text Layout (jlreq): no spaces",
        examples={
            "你好，“世界”。再见": "你好世界再见",
            "コーヒー、 カール・マルクス": "コーヒーカールマルクス",
            "他说:‘你好’吗": "他说你好吗",
        },
    ),
)
