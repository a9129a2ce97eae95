"""Laws of vocabularies: encoding and decoding are inverse, files are whole, bad input is named."""

import gzip
import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arborvox.errors import ArborvoxError
from arborvox.manifest import Utterance, cut_line
from arborvox.tokens import EOS_ID, UNK_ID, Sentence, TextCorpus, Tokenizer, build_tokenizer
from arborvox.tokens.closeness import language_closeness
from arborvox.tokens.trees import build_tree, color_units, languages_of_units

LAWS = settings(deadline=None, derandomize=True, max_examples=60)
SENTENCES = [
    Sentence("ca", "bon dia a tothom"),
    Sentence("ca", "què tal"),
    Sentence("es", "buenos días a todos"),
    Sentence("ru", "добрый день ▁"),
]
LETTERS = sorted(set("".join(sentence.text for sentence in SENTENCES)))
COVERED = st.text(st.sampled_from(LETTERS), max_size=40)


def write_cuts(path: Path, sentences: Sequence[Sentence]) -> Path:
    with gzip.open(path, "wt", encoding="utf-8") as file:
        for sentence in sentences:
            utterance = Utterance("x", "x.wav", sentence.language, sentence.text, 16000, 16000)
            file.write(json.dumps(json.loads(cut_line(utterance))) + "\n")  # surrogates escaped
    return path


@pytest.fixture(scope="module")
def bpe() -> Tokenizer:
    return build_tokenizer(SENTENCES * 3, "bpe", vocab_size=45)


@LAWS
@given(COVERED)
def test_characters_come_back_as_they_were(text: str) -> None:
    for graphemes in (False, True):
        tokenizer = build_tokenizer([Sentence("x-x", text + "ab")], "char", graphemes=graphemes)
        assert tokenizer.decode(tokenizer.encode(text)) == text or tokenizer.count_unknown(text)
    tokenizer = build_tokenizer(SENTENCES, "char")
    assert tokenizer.decode(tokenizer.encode(text)) == text
    assert tokenizer.count_unknown(text) == 0


@LAWS
@given(text=st.text(st.sampled_from([c for c in LETTERS if c != "▁"]), max_size=40))
def test_bpe_comes_back_as_it_was(bpe: Tokenizer, text: str) -> None:
    assert bpe.decode(bpe.encode(text)) == text
    assert bpe.count_unknown(text) == 0


@LAWS
@given(st.lists(st.sampled_from(["a", "d͡ʒ", "ʃʲ", "<unknown>", "▁"]), max_size=20))
def test_phones_come_back_as_they_were(phones: list[str]) -> None:
    tokenizer = build_tokenizer([Sentence("x-x", "a d͡ʒ ʃʲ <unknown> ▁")], "phone")
    text = " ".join(phones)
    assert tokenizer.decode(tokenizer.encode(text)) == text
    assert len(tokenizer.encode(text)) == len(phones)


@LAWS
@given(text=st.text(max_size=30))
def test_any_text_can_be_encoded_and_unknown_units_are_counted(bpe: Tokenizer, text: str) -> None:
    for tokenizer in (build_tokenizer(SENTENCES, "char"), bpe):
        ids = tokenizer.encode(text)
        assert all(0 <= token < len(tokenizer) for token in ids)
        assert tokenizer.count_unknown(text) == ids.count(UNK_ID)
        assert tokenizer.decode(ids).count("\ufffd") == ids.count(UNK_ID)


def test_bpe_does_not_take_its_own_space_sign_for_a_space(bpe: Tokenizer) -> None:
    fallback = build_tokenizer(SENTENCES * 3, "bpe", vocab_size=320, byte_fallback=True)
    for tokenizer in (bpe, fallback):
        assert tokenizer.count_unknown("a▁a") == 1
        assert tokenizer.decode(tokenizer.encode("a▁a")) == "a\ufffda"


def test_byte_fallback_leaves_nothing_unknown() -> None:
    tokenizer = build_tokenizer(SENTENCES * 3, "bpe", vocab_size=320, byte_fallback=True)
    assert tokenizer.count_unknown("漢字 ☃") == 0
    assert tokenizer.decode(tokenizer.encode("漢字 ☃")) == "漢字 ☃"


def test_graphemes_are_letters_with_their_marks() -> None:
    corpus = [Sentence("hi", "नि q\u0308 ab")]
    tokenizer = build_tokenizer(corpus, "char", graphemes=True)
    assert {"नि", "q\u0308"} <= set(tokenizer.units)
    assert len(tokenizer.encode("नि")) == 1


def test_special_tokens_come_first_then_units_by_code_point() -> None:
    tokenizer = build_tokenizer(SENTENCES, "char", language_tags=True)
    assert tokenizer.units[:5] == ("<eos>", "<unk>", "<ca>", "<es>", "<ru>")
    assert list(tokenizer.units[5:]) == LETTERS
    assert tokenizer.blank_id == len(tokenizer)


def test_the_same_unit_in_two_languages_is_one_unit() -> None:
    tokenizer = build_tokenizer(SENTENCES, "char")
    used = languages_of_units(tokenizer)[tokenizer.units.index("a")]
    assert tokenizer.units.count("a") == 1
    assert used == ["ca", "es"]


def test_counts_hold_every_unit_and_one_eos_an_utterance() -> None:
    tokenizer = build_tokenizer(SENTENCES, "char", language_tags=True)
    assert [tokenizer.counts[name][EOS_ID] for name in ("ca", "es", "ru")] == [2, 1, 1]
    assert tokenizer.counts["ca"][tokenizer.tag_id("ca")] == 2
    assert tokenizer.counts["ca"][tokenizer.units.index("a")] == 3
    assert sum(tokenizer.counts["es"]) == len("buenos días a todos") + 2


def test_tags_say_the_language() -> None:
    tokenizer = build_tokenizer(SENTENCES, "char", language_tags=True)
    ids = tokenizer.encode("bon dia", "ca")
    assert tokenizer.language_of(ids) == "ca"
    assert tokenizer.decode(ids) == "bon dia"
    assert tokenizer.encode("bon dia") == ids[1:]
    assert tokenizer.language_of(ids[1:]) is None
    with pytest.raises(ArborvoxError, match="no tag for language de"):
        tokenizer.encode("hallo", "de")


def test_without_tags_the_language_changes_nothing() -> None:
    tokenizer = build_tokenizer(SENTENCES, "char")
    assert tokenizer.encode("dia", "ca") == tokenizer.encode("dia") == tokenizer.encode("dia", "de")


def test_a_text_cannot_spell_a_special_token() -> None:
    tokenizer = build_tokenizer([Sentence("x-x", "a b")], "phone")
    assert tokenizer.encode("a <eos> b").count(UNK_ID) == 1
    with pytest.raises(ArborvoxError, match="special token's name"):
        build_tokenizer([Sentence("x-x", "a <eos> b")], "phone")


def test_ids_outside_the_vocabulary_are_refused() -> None:
    tokenizer = build_tokenizer(SENTENCES, "char")
    for token in (-1, tokenizer.blank_id):
        with pytest.raises(ArborvoxError, match="no token"):
            tokenizer.decode([token])


@pytest.mark.parametrize("unit", ["char", "phone", "bpe"])
def test_what_was_saved_is_loaded_and_the_order_of_sentences_changes_no_byte(
    tmp_path: Path, unit: str
) -> None:
    first = build_tokenizer(SENTENCES * 3, unit, vocab_size=45)
    second = build_tokenizer(list(reversed(SENTENCES * 3)), unit, vocab_size=45)
    first.save(tmp_path / "a.json")
    second.save(tmp_path / "b.json")
    assert (tmp_path / "a.json").read_bytes() == (tmp_path / "b.json").read_bytes()
    loaded = Tokenizer.load(tmp_path / "a.json")
    assert loaded == first
    assert loaded.encode("bon dia") == first.encode("bon dia")


def test_manifests_texts_and_folders_are_read(tmp_path: Path) -> None:
    prepared = tmp_path / "prepared"
    prepared.mkdir()
    cuts = write_cuts(prepared / "cuts_train.jsonl.gz", SENTENCES)
    write_cuts(prepared / "cuts_test.jsonl.gz", [Sentence("ca", "zzz")])
    texts = tmp_path / "texts"
    texts.mkdir()
    (texts / "ca.txt").write_text("Bon dia!\n\nTinc 3 gats\n", encoding="utf-8")
    (texts / "es.txt").write_text("¿Qué tal?\n", encoding="utf-8")
    assert list(TextCorpus([cuts])) == list(TextCorpus([prepared])) == SENTENCES
    corpus = TextCorpus([texts])
    assert list(corpus) == [Sentence("ca", "bon dia"), Sentence("es", "qué tal")]
    assert sum(corpus.skipped.values()) == 1
    assert list(TextCorpus([texts], ["es"])) == [Sentence("es", "qué tal")]
    assert list(TextCorpus([prepared, cuts])) == SENTENCES  # one file is read once


def test_the_ucla_layout_is_read(tmp_path: Path) -> None:
    (tmp_path / "abk").mkdir()
    table = "abk-002-000 a d͡ʒ ʃʲ\nabk-002-001\n"
    (tmp_path / "abk" / "text.txt").write_text(table, encoding="utf-8")
    assert list(TextCorpus([tmp_path])) == [Sentence("abk", "a d͡ʒ ʃʲ")]


def test_bad_corpora_are_named(tmp_path: Path) -> None:
    def refuse(message: str, *sources: Path, languages: Sequence[str] | None = None) -> None:
        with pytest.raises(ArborvoxError, match=message):
            build_tokenizer(TextCorpus(sources, languages), "char")

    empty = tmp_path / "ca.txt"
    empty.write_text("\n")
    refuse("corpus is empty", empty)
    empty.write_text("aaa\n")
    refuse("one single unit", empty)
    refuse("No sentence in es", empty, languages=["ca", "es"])
    empty.write_bytes(b"\xff\xfe\x00")
    refuse("not UTF-8", empty)
    refuse("no manifest, text file or folder", tmp_path / "missing")
    (tmp_path / "folder").mkdir()
    refuse("holds neither", tmp_path / "folder")
    (tmp_path / "table.tsv").write_text("a")
    refuse("neither a manifest", tmp_path / "table.tsv")
    cuts = tmp_path / "cuts.jsonl.gz"
    refuse("line 1: the text contains a newline", write_cuts(cuts, [Sentence("ca", "a\nb")]))
    refuse("line 1: .* half a surrogate", write_cuts(cuts, [Sentence("ca", "a\ud800b")]))
    refuse("corpus is empty", write_cuts(cuts, []))
    for line in (b"{}", b"not json", b"[1]", b'{"supervisions": [{"text": 5}]}'):
        cuts.write_bytes(gzip.compress(line + b"\n", mtime=0))
        refuse("line 1: not a Lhotse cut", cuts)
    cuts.write_bytes(gzip.compress(b"{}" * 1000, mtime=0)[:20])
    refuse("not a whole gzip", cuts)
    cuts.write_bytes(b"plain text")
    refuse("not a whole gzip", cuts)


@pytest.mark.parametrize(
    ("size", "message"),
    [(3, "no room"), (10, f"needs {len(LETTERS) - 1} pieces"), (100_000, "finds .* smaller")],
)
def test_a_bpe_vocabulary_that_cannot_be_is_refused(size: int, message: str) -> None:
    with pytest.raises(ArborvoxError, match=message):
        build_tokenizer(SENTENCES, "bpe", vocab_size=size)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"format": "x"}, "not a token file"),
        ({"version": 2}, "version 2"),
        ({"unit": "word"}, "Unknown unit"),
        ({"unit": "bpe"}, "sentencepiece model"),
        ({"languages": "ca"}, "list of names"),
        ({"units": [["<eos>", {}], ["a", {}]]}, "must start with <eos>"),
        ({"units": [["<eos>", {}], ["<unk>", {}], ["a\n", {}]]}, "newline"),
        ({"units": [["<eos>", {}], ["<unk>", {}], ["", {}]]}, "empty"),
        ({"units": [["<eos>", {}], ["<unk>", {}], ["a", {}], ["a", {}]]}, "twice"),
        ({"units": [["<eos>", {}], ["<unk>", {}], ["a", {"de": 1}]]}, "one of"),
        ({"units": [["<eos>", {}], ["<unk>", {}], ["a", {"ca": 1.5}]]}, "whole number"),
        ({"units": [["<eos>", {}], ["<unk>", {}], ["a", {"ca": -1}]]}, "do not fit"),
        ({"units": [["<eos>"]]}, "token 0"),
        ({"model": "?"}, "base64"),
    ],
)
def test_a_damaged_vocabulary_is_refused_by_name(
    tmp_path: Path, changes: dict, message: str
) -> None:
    path = tmp_path / "tokens.json"
    build_tokenizer(SENTENCES, "char").save(path)
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))
    with pytest.raises(ArborvoxError, match=message) as caught:
        Tokenizer.load(path)
    assert str(path) in str(caught.value)


def test_a_damaged_bpe_model_is_refused(bpe: Tokenizer) -> None:
    broken = Tokenizer("bpe", bpe.units, bpe.counts, model=b"nonsense")
    with pytest.raises(ArborvoxError, match="damaged"):
        broken.encode("a")


def test_every_kind_of_tree_can_be_built_over_a_vocabulary() -> None:
    tokenizer = build_tokenizer([Sentence("x-x", "p b t d a e i")], "phone")
    for kind in ("huffman", "balanced", "random", "phonetic"):
        tree = build_tree(tokenizer, kind)
        assert (tree.kind, tree.units) == (kind, tokenizer.units)
    with pytest.raises(ArborvoxError, match="--embedding-from"):
        build_tree(tokenizer, "embedding")
    with pytest.raises(ArborvoxError, match="Unknown kind"):
        build_tree(tokenizer, "oak")


def test_closeness_is_symmetric_and_one_for_the_same_language() -> None:
    corpus = [*SENTENCES, Sentence("va", "bon dia a tothom"), Sentence("va", "què tal")]
    closeness = language_closeness(build_tokenizer(corpus, "char"))
    similarity = closeness.similarity
    np.testing.assert_array_equal(similarity, similarity.T)
    np.testing.assert_allclose(np.diag(similarity), 1.0)
    assert np.all((similarity >= 0) & (similarity <= 1))
    place = closeness.languages.index
    assert similarity[place("ca"), place("va")] == pytest.approx(1.0)
    assert abs(place("ca") - place("va")) == 1  # neighbors stand side by side
    assert similarity[place("ca"), place("ru")] < similarity[place("ca"), place("es")]


def test_colors_of_a_unit_sum_to_one_and_special_tokens_have_none() -> None:
    tokenizer = build_tokenizer(SENTENCES, "char", language_tags=True)
    for by in ("language", "script", "sharing"):
        coloring = color_units(tokenizer, by)
        sums = coloring.shares.sum(axis=1)
        np.testing.assert_allclose(sums[: tokenizer.num_special], 0.0)
        np.testing.assert_allclose(sums[tokenizer.num_special :], 1.0)
    with pytest.raises(ArborvoxError, match="Unknown coloring"):
        color_units(tokenizer, "taste")


def test_too_many_languages_to_color_is_said() -> None:
    corpus = [Sentence(f"l{n}", "ab") for n in range(30)]
    with pytest.raises(ArborvoxError, match="--color sharing"):
        color_units(build_tokenizer(corpus, "char"), "language")


def test_real_sentences_come_back_as_they_were(data_root: Path) -> None:
    corpus = TextCorpus([data_root / "text"], ["uz", "tr", "uk"])
    tokenizer = build_tokenizer(corpus, "char")
    for number, sentence in enumerate(corpus):
        if number % 50 == 0:
            ids = tokenizer.encode(sentence.text, sentence.language)
            assert tokenizer.decode(ids) == sentence.text
            assert UNK_ID not in ids
