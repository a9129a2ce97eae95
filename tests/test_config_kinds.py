"""Sections that know their kind: what a kind does not read is refused, with a way out."""

from pathlib import Path

import pytest

from arborvox.config import CORPUS_SECTIONS, UclaCorpus, load_recipe
from arborvox.errors import ArborvoxError

# A key that most kinds have, whatever kinds there are.
WITH_SPLIT = [kind for kind, section in CORPUS_SECTIONS.items() if "split" in section.model_fields]


def refusal(tmp_path: Path, text: str, *overrides: str) -> str:
    path = tmp_path / "r.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ArborvoxError) as caught:
        load_recipe(path, overrides)
    return str(caught.value)


@pytest.mark.parametrize(
    ("corpus", "key", "others"),
    [
        ("{kind: ucla, hours: 5}", "hours", "common-voice and synthetic"),
        ("{kind: ucla, split: official}", "split", " and ".join(WITH_SPLIT)),
        ("{kind: folder, ratio: 0.1}", "ratio", "common-voice and ucla and synthetic"),
        ("{kind: folder, test_languages: [fi]}", "test_languages", "ucla"),
        ("{kind: common-voice, sentences: 3}", "sentences", "synthetic"),
        ("{alpha: 0.1}", "alpha", "common-voice and synthetic"),  # folder, where no kind is named
    ],
)
def test_a_key_of_another_kind_is_refused(
    corpus: str, key: str, others: str, tmp_path: Path
) -> None:
    told = refusal(tmp_path, f"name: x\ncorpus: {corpus}\n")
    assert f"r.yaml, line 2: unknown key corpus.{key}, which the kind " in told
    assert f"({others} can)" in told


def test_the_nearest_key_of_the_kind_is_proposed(tmp_path: Path) -> None:
    told = refusal(tmp_path, "corpus:\n  kind: ucla\n  test_language: [fin]\n")
    assert "line 3: unknown key corpus.test_language" in told
    assert "did you mean corpus.test_languages?" in told


def test_mistakes_in_added_corpora_have_their_line(tmp_path: Path) -> None:
    text = (
        "corpus:\n  kind: ucla\n  more:\n    - kind: common-voice\n      unit: phones\n      {}\n"
    )
    told = refusal(tmp_path, text.format("ours: 3"))
    assert "line 6: unknown key corpus.more.0.ours" in told
    assert "did you mean corpus.more.0.hours?" in told
    assert "line 6: corpus.more.0.alpha: " in refusal(tmp_path, text.format("alpha: 3"))


@pytest.mark.parametrize("kind", ["oak", "5", "[ucla]", "null"])
def test_an_unknown_kind_is_told_the_kinds_there_are(kind: str, tmp_path: Path) -> None:
    told = refusal(tmp_path, f"corpus:\n  kind: {kind}\n")
    assert "line 2: corpus.kind: input should be 'common-voice', 'ucla', 'folder'" in told


def test_a_corpus_is_a_section(tmp_path: Path) -> None:
    assert "corpus: input should be a section" in refusal(tmp_path, "corpus: 5\n")


def test_overrides_reach_into_a_kind_and_can_replace_it(tmp_path: Path) -> None:
    path = tmp_path / "r.yaml"
    path.write_text("corpus: {kind: common-voice, hours: 3}\n", encoding="utf-8")
    assert load_recipe(path, ["corpus.hours=5"]).corpus.hours == 5.0  # type: ignore[attr-defined]
    other = load_recipe(path, ["corpus={kind: ucla}", "corpus.dev=languages"]).corpus
    assert other == UclaCorpus(dev="languages")
    told = refusal(tmp_path, "corpus: {kind: common-voice, hours: 3}\n", "corpus.kind=ucla")
    assert "unknown key corpus.hours, which the kind ucla cannot have" in told


@pytest.mark.parametrize(
    ("text", "old", "new"),
    [
        ("features: {normalise: corpus}\n", "features.normalise", "features.normalize"),
        ("corpus: {folder: {language: sah}}\n", "corpus.folder", "corpus.language"),
        (
            "corpus: {kind: synthetic, synthetic: {text: a, words: [1]}}\n",
            "corpus.synthetic",
            "corpus.text, corpus.words",
        ),
        (
            "corpus: {more: [{kind: synthetic, synthetic: {names: [1]}}]}\n",
            "corpus.more.0.synthetic",
            "corpus.more.0.names",
        ),
    ],
)
def test_old_keys_are_answered_with_the_new_name(
    text: str, old: str, new: str, tmp_path: Path
) -> None:
    told = refusal(tmp_path, text)
    assert told.endswith(f"r.yaml, line 1: unknown key {old}: it is called {new} now.")


def test_an_old_key_in_an_override_names_the_override(tmp_path: Path) -> None:
    told = refusal(tmp_path, "corpus: {kind: synthetic}\n", "corpus.synthetic.text=words")
    assert told.startswith("--set corpus.synthetic.text=words: ")
    assert "corpus.text now" in told
