"""The UCLA Phonetic Corpus: the paper's counts, and languages never heard."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from releases import tone

from arborvox.config import UclaCorpus
from arborvox.corpora import prepare
from arborvox.corpora.ucla import PAPER_TEST_LANGUAGES
from arborvox.errors import ArborvoxError


def make_corpus(root: Path, languages: tuple[str, ...] = ("abk", "afr", "ben", "ces")) -> Path:
    for language in languages:
        for i in range(20):
            tone(root / language / "audio" / f"{language}-{i:03}.wav", 0.3)
        lines = [f"{language}-{i:03} a d͡ʒ {'ʃʲ' if i == 0 else 'm'}" for i in range(20)]
        (root / language / "text.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return root


def run(source: Path, out: Path, **keys: Any) -> dict[str, Any]:
    config = UclaCorpus(source=str(source), **keys)
    prepare(config, out, jobs=2)
    stats: dict[str, Any] = json.loads((out / "stats.json").read_text(encoding="utf-8"))
    return stats


def languages_of(out: Path, split: str) -> set[str]:
    with gzip.open(out / f"cuts_{split}.jsonl.gz", "rt", encoding="utf-8") as file:
        return {json.loads(line)["supervisions"][0]["language"] for line in file}


def test_test_languages_are_never_heard(tmp_path: Path) -> None:
    run(make_corpus(tmp_path / "ucla"), tmp_path / "out")
    assert languages_of(tmp_path / "out", "test") == {"abk"}
    assert "abk" not in languages_of(tmp_path / "out", "train")


def test_development_can_hold_out_whole_languages(tmp_path: Path) -> None:
    run(make_corpus(tmp_path / "ucla"), tmp_path / "out", dev="languages")
    dev, train = (languages_of(tmp_path / "out", split) for split in ("dev", "train"))
    assert len(dev) == 1
    assert not dev & train


def test_training_keeps_every_phone(tmp_path: Path) -> None:
    stats = run(make_corpus(tmp_path / "ucla", ("afr", "ben")), tmp_path / "out")
    assert stats["phones"]["train"] == 4
    assert stats["total"]["dev"]["utterances"] == 2


def test_other_test_languages(tmp_path: Path) -> None:
    source = make_corpus(tmp_path / "ucla")
    run(source, tmp_path / "out", test_languages=("ben",))
    assert languages_of(tmp_path / "out", "test") == {"ben"}
    with pytest.raises(ArborvoxError, match="xyz"):
        run(source, tmp_path / "out", test_languages=("xyz",))


def test_lines_and_files_that_do_not_fit_are_listed(tmp_path: Path) -> None:
    source = make_corpus(tmp_path / "ucla")
    tone(source / "afr/audio/stray.wav")
    with (source / "afr/text.txt").open("ab") as text:
        text.write(b"afr-900 a b\nafr-000 a\nafr-001\nafr-\xff\xfe a\n")
    run(source, tmp_path / "out")
    lines = (tmp_path / "out/skipped.tsv").read_text().splitlines()[1:]
    skipped = dict(line.split("\t") for line in lines)
    assert skipped["afr/text.txt, line 21"].startswith("no such file")
    assert skipped["afr/text.txt, line 22"].startswith("duplicate row")
    assert skipped["afr/text.txt, line 23"] == "no phones"
    assert skipped["afr/text.txt, line 24"] == "not UTF-8"
    assert skipped["afr/audio/stray.wav"] == "not in text.txt"


@pytest.mark.real_data
def test_the_papers_counts(data_root: Path, tmp_path: Path) -> None:
    stats = run(data_root / "ucla", tmp_path / "out", check="headers")
    total = stats["total"]
    assert total["train"]["utterances"] + total["dev"]["utterances"] == 5021
    assert total["test"]["utterances"] == 488
    assert stats["phones"]["train"] == 338
    assert stats["phones"]["test_tokens"] == 2169
    assert languages_of(tmp_path / "out", "test") == set(PAPER_TEST_LANGUAGES)
    heard = languages_of(tmp_path / "out", "train") | languages_of(tmp_path / "out", "dev")
    assert len(heard) == 85


def test_a_share_of_each_training_language_is_kept_and_a_smaller_one_is_part_of_a_larger(
    tmp_path: Path,
) -> None:
    source = make_corpus(tmp_path / "ucla")

    def kept(name: str, ratio: float) -> set[str]:
        stats = run(source, tmp_path / name, dev="languages", ratio=ratio)
        assert stats["skipped"]["not sampled"] == 40 - stats["total"]["train"]["utterances"]
        assert stats["total"]["test"]["utterances"] == 20
        with gzip.open(tmp_path / name / "cuts_train.jsonl.gz", "rt", encoding="utf-8") as file:
            return {json.loads(line)["supervisions"][0]["id"] for line in file}

    tenth, half = kept("tenth", 0.1), kept("half", 0.5)
    assert (len(tenth), len(half)) == (4, 20)
    assert tenth < half
