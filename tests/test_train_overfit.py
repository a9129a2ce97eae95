"""The law that the whole chain can learn: thirty real utterances, by heart."""

import gzip
import json
from pathlib import Path

import pytest
import torch
from tiny_corpus import TinyCorpus, make_cut, train_corpus

from arborvox.config import validate_recipe
from arborvox.tokens import Tokenizer
from arborvox.tree import HuffmanTree, save_tree

NUM_UTTERANCES = 30


def thirty_utterances(ucla: Path, folder: Path) -> TinyCorpus:
    """Prepare the first thirty utterances of one language, the same ones to train and to score."""
    # isl/text.txt: "isl-003-000 p ɪ l"
    language = "isl"
    lines = (ucla / language / "text.txt").read_text(encoding="utf-8").splitlines()
    chosen = []
    for line in lines:
        name, _, phones = line.partition(" ")
        path = ucla / language / "audio" / f"{name}.flac"
        if phones.strip() and path.exists():
            chosen.append(make_cut(path, " ".join(phones.split()), language))
        if len(chosen) == NUM_UTTERANCES:
            break
    assert len(chosen) == NUM_UTTERANCES
    folder.mkdir(parents=True)
    corpus = TinyCorpus(
        folder, folder / "tokens.json", folder / "tree.json", ucla / language / "audio"
    )
    for split in ("train", "dev"):
        with gzip.open(folder / f"cuts_{split}.jsonl.gz", "wt", encoding="utf-8") as file:
            file.writelines(json.dumps(cut.to_dict()) + "\n" for cut in chosen)
    texts = [cut.supervisions[0].text.split() for cut in chosen]
    phones = sorted({phone for text in texts for phone in text})
    units = ("<eos>", "<unk>", *phones)
    counts = [NUM_UTTERANCES, 0, *(sum(t.count(p) for t in texts) for p in phones)]
    Tokenizer(unit="phone", units=units, counts={language: tuple(counts)}).save(corpus.tokens)
    save_tree(HuffmanTree.from_counts(counts, units), corpus.tree)
    return corpus


@pytest.mark.slow
@pytest.mark.real_data
@pytest.mark.parametrize("output", ["softmax", "hierarchical"])
def test_overfits_thirty_real_utterances(output: str, data_root: Path, tmp_path: Path) -> None:
    """PER under 5 % on the thirty utterances themselves, with each output layer."""
    torch.set_num_threads(1)  # small models are fastest so
    corpus = thirty_utterances(data_root / "ucla", tmp_path / "corpus")
    sections = {
        "features": {"cache": str(tmp_path / "cache")},
        "augment": {"speeds": [1.0], "time_masks": 0, "frequency_masks": 0},
        "model": {
            "size": "tiny",
            "output": output,
            "width": 64,
            "feed_forward": 128,
            "dropout": 0.0,
            "label_smoothing": 0.0,
            "ctc_weight": 0.5,
        },
        "train": {
            "batch_s": 9.0,
            "max_steps": 300,
            "save_every": 50,
            "warmup_steps": 30,
            "learning_rate": 3e-3,
            "average_best": 1,
            "workers": 0,
        },
    }
    result = train_corpus(validate_recipe(sections, name="test"), corpus, tmp_path / "run")
    assert result.dev is not None
    assert result.dev.error_rate is not None
    assert result.dev.error_rate < 0.05
