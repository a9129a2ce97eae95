"""Language codes: every one in use is known, and a wrong one is told with the nearest."""

from pathlib import Path

import pytest
import yaml

from arborvox.config import load_recipe
from arborvox.corpora.checks import check_codes
from arborvox.errors import ArborvoxError
from arborvox.text.codes import check_language
from arborvox.text.languages import KNOWN_LANGUAGES

RECIPES = sorted((Path(__file__).parents[1] / "recipes").glob("*.yaml"))

# Folders of Common Voice releases whose names are more than two letters, or newer than most lists.
COMMON_VOICE = """
    zh-CN zh-HK zh-TW sv-SE nan-tw rm-sursilv rm-vallader ga-IE fy-NL hy-AM pa-IN nn-NO nb-NO ne-NP
    ms-MY pap-AW cnh ckb kmr zgh mhr mrj tok hsb dsb sah izh vot udm myv mdf kpv lij ltg hyw nqo syr
"""


@pytest.mark.parametrize("code", [*COMMON_VOICE.split(), *sorted(KNOWN_LANGUAGES)])
def test_codes_of_common_voice_and_of_the_normalizer_are_known(code: str) -> None:
    assert check_language(code, "here") == code


@pytest.mark.parametrize(
    "code", ["fin", "klu", "sbc", "aeb", "und", "qaa", "x-village", "de-x-south", "mn-Mong", "FR"]
)
def test_other_tags_are_accepted_as_they_are_written(code: str) -> None:
    assert check_language(code, "here") == code


@pytest.mark.parametrize(
    ("code", "nearest"),
    [
        ("rumanian", "ro (Romanian)"),
        ("english", "en (English)"),
        ("yakut", "sah (Yakut)"),
        ("kyrgiz", "ky (Kyrgyz)"),
        ("zh_CN", "zh-CN"),
        (" ca", "ca"),
    ],
)
def test_the_nearest_code_is_proposed(code: str, nearest: str) -> None:
    with pytest.raises(ArborvoxError, match=r"table.csv, line 7: .* is no language code") as error:
        check_language(code, "table.csv, line 7")
    assert f"did you mean {nearest}?" in str(error.value)


@pytest.mark.parametrize("code", ["", "xx", "x-", "../../x", "/abs", "mn-Mogn", "é", "a" * 99])
def test_what_is_no_tag_is_refused_without_a_wild_guess(code: str) -> None:
    with pytest.raises(ArborvoxError) as error:
        check_language(code, "here")
    assert "did you mean" not in str(error.value)


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda path: path.stem)
def test_every_recipe_of_ours_names_languages(recipe: Path) -> None:
    loaded = load_recipe(recipe)
    check_codes(loaded.corpus)
    for variant in loaded.variants:
        for key, value in variant.set.items():
            if key.endswith("languages"):
                for code in value:
                    check_language(code, key)


@pytest.mark.parametrize("key", ["languages", "test_languages"])
def test_a_recipe_with_a_wrong_code_is_refused_by_its_key(tmp_path: Path, key: str) -> None:
    corpus = {"kind": "ucla", key: ["es", "rumanian"]}
    (tmp_path / "r.yaml").write_text(yaml.safe_dump({"corpus": corpus}))
    with pytest.raises(ArborvoxError, match=rf"corpus\.{key}: 'rumanian' is no language code"):
        check_codes(load_recipe(tmp_path / "r.yaml").corpus)


@pytest.mark.real_data
def test_every_language_of_the_real_corpora_is_known(data_root: Path) -> None:
    for folder in ("ucla", "common_voice"):
        for place in (data_root / folder).iterdir():
            check_language(place.name, str(place))
