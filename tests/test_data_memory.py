"""Memory does not grow with the corpus: a manifest is read line by line, a table is on disk."""

import gzip
import json
import tracemalloc
from pathlib import Path

from tiny_corpus import TinyCorpus, make_corpus

from arborvox.data import build_table
from arborvox.tokens import UNK_ID, Tokenizer
from arborvox.training.plan import Planner

NUM_UTTERANCES = 500
# The columns of the table and of an epoch's plan; a cut in memory takes about twenty times as much.
MAX_BYTES_PER_UTTERANCE = 250


def write_long_manifest(corpus: TinyCorpus, path: Path, count: int) -> None:
    """Repeat the corpus's cuts under new names."""
    with gzip.open(corpus.manifests / "cuts_train.jsonl.gz", "rt", encoding="utf-8") as file:
        cuts = [json.loads(line) for line in file]
    with gzip.open(path, "wt", encoding="utf-8", compresslevel=1) as file:
        for number in range(count):
            cut = cuts[number % len(cuts)]
            file.write(json.dumps({**cut, "id": f"utterance-{number:07d}"}) + "\n")


def peak_of_reading_bytes(folder: Path, manifest: Path, tokenizer: Tokenizer) -> int:
    """Build a table, lay out an epoch and read every utterance once; return the peak of all."""
    tracemalloc.start()
    try:
        table = build_table(
            folder,
            manifest,
            tokenizer,
            source="test",
            max_duration_s=30.0,
            unknown_id=UNK_ID,
        )
        planner = Planner(
            table=table,
            batch_s=100.0,
            speeds=(0.9, 1.0, 1.1),
            language_temperature=1.0,
            duration_jitter=0.03,
            seed=0,
        )
        plan = planner.plan(0)
        for index in range(len(plan)):
            for row in plan.order(index).rows:
                table[row]
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_ten_times_the_corpus_costs_only_its_columns(tmp_path: Path) -> None:
    corpus = make_corpus(tmp_path / "corpus")
    tokenizer = Tokenizer.load(corpus.tokens)
    peaks = []
    for times in (1, 10):
        manifest = tmp_path / f"cuts_{times}.jsonl.gz"
        write_long_manifest(corpus, manifest, times * NUM_UTTERANCES)
        # The lower of two: Python now and then lays out its own table of strings anew.
        folders = [tmp_path / f"table_{times}_{run}" for run in range(2)]
        peaks.append(min(peak_of_reading_bytes(one, manifest, tokenizer) for one in folders))
    growth = (peaks[1] - peaks[0]) / (9 * NUM_UTTERANCES)
    assert growth < MAX_BYTES_PER_UTTERANCE
