"""`arborvox prepare`: its commands and options are the kinds and keys of the corpus section."""

from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from arborvox.cli import main
from arborvox.config import CORPUS_SECTIONS, CorpusConfig, FolderCorpus, SyntheticCorpus

SOURCE_AND_LANGUAGES = {"synthetic": ["--languages", "es"]}


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[CorpusConfig, dict[str, Any]]]:
    """What the command would have prepared."""
    calls: list[tuple[CorpusConfig, dict[str, Any]]] = []

    def note(config: CorpusConfig, out: Path, **keys: Any) -> None:
        calls.append((config, {"out": out, **keys}))

    monkeypatch.setattr("arborvox.corpora.prepare", note)
    return calls


def prepare(*words: str) -> int | str | None:
    with pytest.raises(SystemExit) as caught:
        main(["prepare", *words])
    return caught.value.code


@pytest.mark.parametrize("kind", CORPUS_SECTIONS)
def test_a_kind_is_a_command_and_its_defaults_are_those_of_its_section(
    kind: str, asked: list[tuple[CorpusConfig, dict[str, Any]]]
) -> None:
    section = CORPUS_SECTIONS[kind]
    assert prepare(kind, *SOURCE_AND_LANGUAGES.get(kind, ["place"]), "--out", "o") == 0
    config, keys = asked[0]
    given = {"languages": ("es",)} if kind == "synthetic" else {"source": "place"}
    assert config == section(**given)  # type: ignore[arg-type]
    assert (keys["out"], keys["strict"]) == (Path("o"), False)
    assert keys["jobs"] >= 1


@pytest.mark.parametrize("kind", CORPUS_SECTIONS)
def test_every_key_with_a_choice_is_an_option_with_its_help(kind: str) -> None:
    from arborvox.cli import app

    shown = CliRunner().invoke(
        app, ["prepare", kind, "--help"], env={"COLUMNS": "400", "NO_COLOR": "1"}
    )
    section = CORPUS_SECTIONS[kind]
    left_out = {"kind", "more", "source"} | ({"unit"} if kind == "ucla" else set())
    for key, field in section.model_fields.items():
        if key not in left_out:
            option = "--" + key.removesuffix("_s").replace("_", "-")
            assert option in shown.output
            assert str(field.description).split(":")[0] in shown.output
    assert (section.__doc__ or "").split("\n")[0].replace("\\", "") in shown.output


def test_lists_are_written_with_commas(
    asked: list[tuple[CorpusConfig, dict[str, Any]]],
) -> None:
    words = "spoken --languages es,it --out o --text t --words 1,2 --max-duration 9 --seed 7"
    assert prepare("synthetic", *words.split()) == 0
    assert asked[0][0] == SyntheticCorpus(
        source="spoken",
        languages=("es", "it"),
        text="t",
        words=(1, 2),
        max_duration_s=9.0,
        seed=7,
    )


def test_columns_and_flags_arrive(asked: list[tuple[CorpusConfig, dict[str, Any]]]) -> None:
    words = "t.csv --out o --language sah --text-column words --digits keep --strict --jobs 3"
    assert prepare("folder", *words.split()) == 0
    config, keys = asked[0]
    assert config == FolderCorpus(
        source="t.csv", language="sah", text_column="words", digits="keep"
    )
    assert (keys["strict"], keys["jobs"]) == (True, 3)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("common-voice x --out o --alpha 2", "--alpha: corpus.alpha: input should be less than"),
        ("common-voice x --out o --ratio .1 --hours 3", "give ratio or hours, not both"),
        ("folder x --out o --min-duration nan", "--min-duration: corpus.min_duration_s"),
        ("folder x --out o --seed -1", "--seed: corpus.seed"),
        ("synthetic --out o --languages es --words 1", "words are pieces of a text"),
        ("folder x --out o --split paper", "--split: corpus.split: paper is called sentence now"),
        ("common-voice x --out o --split paper", "corpus.split: paper is called utterance now"),
        ("folder x --out o --split officially", "--split: corpus.split: input should be 'auto', "),
        ("folder x --out o --dev-sets a --test-sets A", "a names two sets"),
    ],
)
def test_a_wrong_option_is_named(
    words: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert prepare(*words.split()) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    "words",
    [
        "ucla x --out o --hours 3",
        "folder x --out o --split official",
        "synthetic --out o",
        "synthetic --out o --languages es --names 1,x",
        "oak x --out o",
        "folder --out o",
    ],
)
def test_what_is_no_option_of_a_kind_is_refused(words: str) -> None:
    assert prepare(*words.split()) == 2


def test_help_of_the_group_lists_the_kinds() -> None:
    from arborvox.cli import app

    assert isinstance(app, typer.Typer)
    shown = CliRunner().invoke(app, ["prepare", "--help"])
    for kind in CORPUS_SECTIONS:
        assert kind in shown.output
