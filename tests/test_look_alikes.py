"""Letters that look alike are found by counting, and one of them is the language's own."""

import json
import unicodedata
from pathlib import Path

import pytest

from arborvox.text.look_alikes import (
    ACROSS_SCRIPTS,
    MARK_TWINS,
    SCRIPTS,
    TWINS,
    count_letters,
)


@pytest.mark.parametrize(
    ("texts", "sentence", "unified"),
    [
        # Fongbe: Greek ε for ɛ, alone too, and with a tone of one code or of two.
        (["mεɖe ɔ nu sin", "é"], "mεɖe ε mέ mε\u0301", "mɛɖe ɛ mɛ\u0301 mɛ\u0301"),
        (["Ibibio ke idәm"], "idәm Ә", "idəm Ә"),  # what was never met is not touched
        (["Привет от нас, oдин"], "oдин iPhone", "один iPhone"),
        (["Чăваш ячĕ, çын тата пур"], "Чăваш ç", "Чӑваш ҫ"),
        (["ку кӀант, хьехархо, кIант, кӀел"], "кIант", "кӀант"),  # the twin that the texts have
        (["καλημέρα σας, o κόσμος"], "o κόσμος", "ο κόσμος"),
        (["și țară, și țară, și țară"], "şi ţară", "și țară"),
        (["nǎ mǎ, nǎ lo"], "nă", "nǎ"),
        (["g"], "ɡ", "g"),
        (["bon dia"], "bon dia", "bon dia"),
        (["שלום o"], "o", "o"),
    ],
)
def test_letters_become_the_languages_own(texts: list[str], sentence: str, unified: str) -> None:
    letters = count_letters([*texts, sentence] if "Ә" not in sentence else texts)
    assert letters.unify(sentence) == unicodedata.normalize("NFC", unified)
    assert letters.unify(letters.unify(sentence)) == letters.unify(sentence)


def test_a_majority_of_slips_is_still_of_another_script() -> None:
    """Thousands of Greek letters in Latin words do not make them Latin."""
    found = count_letters(["mεɖe bε tε lε", "nɛ"]).found
    assert [(pair.letter, pair.like, pair.count, pair.like_count) for pair in found] == [
        ("ε", "ɛ", 4, 1)
    ]


def test_foreign_words_are_no_slips() -> None:
    letters = count_letters(["его iPhone от Apple", "Κως is an island", "да"])
    assert letters.found == ()
    assert letters.unify("Apple Κως") == "Apple Κως"


def test_letters_of_several_codes_are_counted_and_always_one() -> None:
    found = count_letters(["e\u0301 e\u0301 é", "ọ o\u0323"]).found
    assert [(len(pair.letter), pair.like, pair.count, pair.like_count) for pair in found] == [
        (2, "é", 2, 1),
        (2, "ọ", 1, 1),
    ]
    assert all(pair.is_composed for pair in found)


def test_letters_that_only_one_language_of_many_confuses_stay_apart() -> None:
    """Belarusian in Latin letters has breves and carons, on different letters."""
    letters = count_letters(["ŭ č š ž dziaŭčyna čas"])
    assert letters.found == ()


def test_the_table_has_one_code_a_letter_and_scripts_that_are_known() -> None:
    for group in ACROSS_SCRIPTS:
        scripts = {unicodedata.name(letter).split()[0].capitalize() for letter in group}
        assert len(scripts) > 1 and scripts <= set(SCRIPTS)
        assert len({unicodedata.category(letter) for letter in group}) == 1, group
    for group in (*TWINS, *MARK_TWINS):
        assert len(set(group)) == 2
    twice = [letter for group in ACROSS_SCRIPTS for letter in group]
    assert len(set(twice)) == len(twice)


def test_prepare_shows_them_and_unifies_before_letters_are_refused(tmp_path: Path) -> None:
    """In a language whose script is known, a slip would cost the sentence."""
    from arborvox.config import FolderCorpus
    from arborvox.corpora import prepare

    source = tmp_path / "src"
    source.mkdir()
    import numpy as np
    import soundfile

    for number, word in enumerate(["mεɖe", "bɔ", "mɛ", "ɖu", "nu", "ame"]):
        soundfile.write(source / f"{number}.wav", 0.3 * np.ones(8000), 16_000)
        (source / f"{number}.txt").write_text(word, encoding="utf-8")
    stats = {}
    for choice in ("report", "unify"):
        config = FolderCorpus(source=str(source), language="ee", look_alikes=choice)
        prepare(config, tmp_path / choice, jobs=1)
        stats[choice] = json.loads((tmp_path / choice / "stats.json").read_text("utf-8"))
    assert stats["report"]["skipped"] == {"foreign script": 1}
    assert stats["unify"]["skipped"] == {}
    assert stats["unify"]["look_alikes"]["ee"][0]["codes"] == "U+03B5"
    assert stats["unify"]["look_alikes"]["ee"][0]["unified"]
