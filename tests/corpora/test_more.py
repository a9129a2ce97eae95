"""Several corpora as one: what is added, what must stay unheard, and where phones come from."""

import gzip
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from releases import make_release, row, tone, write_table

from arborvox.config import CommonVoiceCorpus, CorpusConfig, UclaCorpus, validate_recipe
from arborvox.corpora import prepare
from arborvox.errors import ArborvoxError

SENTENCE = "buenos días"


def phone_corpus(root: Path) -> Path:
    """Two languages in the layout of the UCLA corpus; abk is one of the paper's test languages."""
    for language in ("abk", "afr"):
        for i in range(10):
            tone(root / language / "audio" / f"{language}-{i}.wav", 0.3)
        lines = [f"{language}-{i} a m" for i in range(10)]
        (root / language / "text.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return root


def release(root: Path, *languages: str, phones: bool = True) -> Path:
    """A Common Voice release, one speaker and one sentence a clip, with phones beside it."""
    for language in languages:
        folder = root / language
        names = [f"{language}-{i}.wav" for i in range(8)]
        for name in names:
            tone(folder / "clips" / name, 0.4)
        rows = [row(f"s{i}", name, f"{SENTENCE} {'abcdefgh'[i]}") for i, name in enumerate(names)]
        write_table(folder, rows)
        if phones:
            table = ["path\tphones", *(f"{name}\tb w e" for name in names)]
            (folder / "phones.tsv").write_text("\n".join(table) + "\n", encoding="utf-8")
    return root


def cuts(folder: Path, split: str) -> list[dict[str, Any]]:
    with gzip.open(folder / f"cuts_{split}.jsonl.gz", "rt", encoding="utf-8") as file:
        return [json.loads(line)["supervisions"][0] for line in file]


def mixture(tmp_path: Path, *parts: CorpusConfig) -> CorpusConfig:
    source = str(phone_corpus(tmp_path / "ucla"))
    return UclaCorpus(source=source, more=parts)


def spoken(source: Path, **keys: Any) -> CorpusConfig:
    return CommonVoiceCorpus(source=str(source), unit="phones", **keys)


def test_training_parts_are_added_and_test_sets_stay(tmp_path: Path) -> None:
    both = tuple(
        spoken(release(tmp_path / name, language)) for name, language in (("a", "es"), ("b", "it"))
    )
    alone = prepare(mixture(tmp_path), tmp_path / "alone", jobs=1)
    mixed = prepare(mixture(tmp_path, *both), tmp_path / "mixed", jobs=1)
    heard = Counter(cut["language"] for cut in cuts(tmp_path / "mixed", "train"))
    assert heard["afr"] == alone.utterances("train")
    assert heard["es"] > 0 and heard["it"] > 0
    assert sum(heard.values()) == mixed.utterances("train")
    for split in ("dev", "test"):
        assert cuts(tmp_path / "mixed", split) == cuts(tmp_path / "alone", split)
    noted = json.loads((tmp_path / "mixed" / "stats.json").read_text())["more"]
    assert [part["utterances"] for part in noted] == [heard["es"], heard["it"]]


def test_a_language_kept_for_testing_stays_unheard_under_any_code(tmp_path: Path) -> None:
    config = mixture(tmp_path, spoken(release(tmp_path / "cv", "ab", "es")))
    prepare(config, tmp_path / "out", jobs=1)
    assert {cut["language"] for cut in cuts(tmp_path / "out", "train")} == {"afr", "es"}
    noted = json.loads((tmp_path / "out" / "stats.json").read_text())["more"]
    assert noted[0]["unheard"] == ["ab"]


@pytest.mark.parametrize(
    ("part", "told"),
    [
        ({"kind": "folder", "unit": "text"}, "must have unit phones"),
        ({"unit": "phones", "more": [{"unit": "phones"}]}, "cannot have `more` itself"),
    ],
)
def test_mixtures_that_make_no_sense_are_refused(part: dict[str, Any], told: str) -> None:
    corpus = {"kind": "ucla", "unit": "phones", "more": [part]}
    with pytest.raises(ArborvoxError, match=told):
        validate_recipe({"corpus": corpus}, name="recipe")


def test_sentences_without_phones_are_read_by_espeak(tmp_path: Path) -> None:
    pytest.importorskip("espeakng_loader", reason="needs the extra: pip install 'arborvox[demo]'")
    source = release(tmp_path / "cv", "es", phones=False)
    prepare(spoken(source), tmp_path / "out", jobs=1)
    texts = {cut["text"] for cut in cuts(tmp_path / "out", "train")}
    assert all(text.startswith("b w e n o s ð i a s") for text in texts)
    assert len(texts) > 1


def test_a_language_that_espeak_cannot_read_is_named(tmp_path: Path) -> None:
    pytest.importorskip("espeakng_loader", reason="needs the extra: pip install 'arborvox[demo]'")
    source = make_release(tmp_path / "cv", ["hsb"], clips=3)
    with pytest.raises(ArborvoxError, match=r"cannot read 'hsb'.*phones\.tsv"):
        prepare(spoken(source), tmp_path / "out", jobs=1)
