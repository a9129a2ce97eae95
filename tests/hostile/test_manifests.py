"""Manifests from strangers: whatever a line holds, it is an utterance or a sentence about it."""

import gzip
import json
import math
from pathlib import Path
from typing import Any

from budgets import examples
from hypothesis import given
from hypothesis import strategies as st
from mutations import STRANGE, changed, places

from arborvox.data import build_table
from arborvox.decode.corpus_decoding import cut_by_length
from arborvox.errors import ArborvoxError
from arborvox.manifest import Utterance, cut_line, read_manifest
from arborvox.tokens import UNK_ID, Tokenizer
from arborvox.training.loader import plain_orders

CUT = json.loads(cut_line(Utterance("ca-1", "a.wav", "ca", "bon dia", 16000, 48000, speaker="x")))

TOKENIZER = Tokenizer("char", ("<eos>", "<unk>", " ", "a", "b"), {"ca": (1,) * 5})

MUTATIONS = st.lists(st.tuples(st.sampled_from(places(CUT)), STRANGE), min_size=1, max_size=3)


def read_or_refuse(path: Path) -> list[Utterance]:
    """Read a manifest; a refusal names the file and is one sentence."""
    try:
        return list(read_manifest(path))
    except ArborvoxError as error:
        assert str(error).startswith(str(path))
        assert len(str(error).splitlines()) == 1
        return []


@examples(100, 2000)
@given(mutations=MUTATIONS)
def test_a_changed_cut_is_read_with_sane_numbers_or_refused(
    tmp_path: Path, mutations: list[tuple[tuple[Any, ...], Any]]
) -> None:
    cut = CUT
    for place, new in mutations:
        cut = changed(cut, place, new)
    path = tmp_path / "cuts.jsonl"
    path.write_text(json.dumps(cut) + "\n", encoding="utf-8")
    for utterance in read_or_refuse(path):
        assert 0 <= utterance.start_s < math.inf
        assert 0 < utterance.duration_s < math.inf
        assert round((utterance.start_s + utterance.duration_s) * 192_000) >= 0
        # What was read can be written, and says the same then.
        path.write_text(cut_line(utterance), encoding="utf-8")
        assert list(read_manifest(path)) == [utterance]


@examples(100, 2000)
@given(mutations=MUTATIONS)
def test_what_is_read_can_be_trained_on_and_cut_into_batches(
    tmp_path: Path, mutations: list[tuple[tuple[Any, ...], Any]]
) -> None:
    cut = CUT
    for place, new in mutations:
        cut = changed(cut, place, new)
    path = tmp_path / "cuts.jsonl"
    path.write_text(json.dumps(cut) + "\n", encoding="utf-8")
    if utterances := read_or_refuse(path):
        assert len(list(cut_by_length(utterances, batch_s=60.0))) == 1
        table = build_table(
            tmp_path / "table", path, TOKENIZER, source="", max_duration_s=30.0, unknown_id=UNK_ID
        )
        assert len(table) + table.num_skipped == 1
        assert len(list(plain_orders(table, 60.0))) == len(table)


@examples(100, 2000)
@given(content=st.binary(max_size=200), packed=st.booleans(), cut_off=st.integers(0, 20))
def test_random_bytes_are_refused(
    tmp_path: Path, content: bytes, packed: bool, cut_off: int
) -> None:
    path = tmp_path / "cuts.jsonl.gz"
    whole = gzip.compress(content, mtime=0) if packed else content
    path.write_bytes(whole[: len(whole) - cut_off] if cut_off else whole)
    assert read_or_refuse(path) == []


@examples(100, 2000)
@given(place=st.integers(0, 600), new=st.binary(min_size=1, max_size=4))
def test_flipped_bytes_of_a_line_are_read_or_refused(
    tmp_path: Path, place: int, new: bytes
) -> None:
    line = json.dumps(CUT).encode()
    place = min(place, len(line))
    path = tmp_path / "cuts.jsonl"
    path.write_bytes(line[:place] + new + line[place + len(new) :] + b"\n")
    read_or_refuse(path)
