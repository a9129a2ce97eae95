"""BPE-dropout: other pieces of the same text, by a seed."""

import pickle
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_corpus import make_corpus, step_losses

from arborvox.config.loading import validate_recipe
from arborvox.data import Batch
from arborvox.errors import ArborvoxError
from arborvox.tokens import Sentence, TextCorpus, Tokenizer, build_tokenizer
from arborvox.tokens.piece_dropout import PieceDropout
from arborvox.train import Trainer, train

LAWS = settings(deadline=None, derandomize=True, max_examples=60)
SENTENCES = [
    Sentence("iba", "nya mai sida datai ari rumah"),
    Sentence("iba", "sida ti datai ari menoa nya"),
    Sentence("iba", "rumah nya mai menoa tu"),
]
LETTERS = sorted(set("".join(sentence.text for sentence in SENTENCES)))
TEXTS = st.text(st.sampled_from([*LETTERS, "é", "<", "0", "x"]), max_size=40)


@pytest.fixture(scope="module", params=[False, True])
def bpe(request: pytest.FixtureRequest) -> Tokenizer:
    size = 310 if request.param else 60  # with a piece for each byte
    return build_tokenizer(SENTENCES * 3, "bpe", vocab_size=size, byte_fallback=request.param)


@LAWS
@given(text=TEXTS)
def test_without_dropout_pieces_are_those_of_sentencepiece(bpe: Tokenizer, text: str) -> None:
    tokens = bpe.encode(text)
    assert PieceDropout(bpe, 0.0)(tokens, seed=0) == tuple(tokens)


@LAWS
@given(text=TEXTS, seed=st.integers(0, 2**63 - 1))
def test_the_text_stays_and_a_seed_decides(bpe: Tokenizer, text: str, seed: int) -> None:
    tokens = bpe.encode(text)
    cut = PieceDropout(bpe, 0.5)
    drawn = cut(tokens, seed)
    assert bpe.decode(drawn) == bpe.decode(tokens)
    assert pickle.loads(pickle.dumps(cut))(tokens, seed) == drawn
    assert len(drawn) >= len(tokens) or drawn == tuple(tokens)


def test_the_more_is_dropped_the_shorter_are_the_pieces(bpe: Tokenizer) -> None:
    tokens = bpe.encode("sida datai ari rumah nya mai menoa")
    lengths = [
        sum(len(PieceDropout(bpe, rate)(tokens, seed)) for seed in range(50))
        for rate in (0.0, 0.1, 0.5, 0.999)
    ]
    assert lengths == sorted(set(lengths))
    assert lengths[-1] > 0.95 * 50 * len("▁sida▁datai▁ari▁rumah▁nya▁mai▁menoa")


def test_tags_stay_in_front() -> None:
    sentences = [*SENTENCES, Sentence("msa", "mereka datang dari rumah")]
    tagged = build_tokenizer(sentences * 3, "bpe", vocab_size=60, language_tags=True)
    tokens = tagged.encode("sida datai", "iba")
    for seed in range(20):
        assert PieceDropout(tagged, 0.5)(tokens, seed)[0] == tagged.tag_id("iba")


def test_other_units_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ArborvoxError, match="needs tokens of unit bpe"):
        PieceDropout(build_tokenizer(SENTENCES, "char"), 0.1)
    with pytest.raises(ArborvoxError, match=r"piece_dropout is read with tokens\.unit: bpe"):
        validate_recipe({"augment": {"piece_dropout": 0.1}}, name="test")
    validate_recipe({"augment": {"piece_dropout": 0.1}, "tokens": {"unit": "bpe"}}, name="test")


def test_training_cuts_words_anew_after_its_plain_start_and_a_resumed_run_does_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    corpus = make_corpus(tmp_path / "corpus")
    texts = TextCorpus([corpus.manifests / "cuts_train.jsonl.gz"])
    spoken = build_tokenizer(texts, "bpe", vocab_size=13)
    spoken.save(corpus.tokens)
    sections = {
        "tokens": {"unit": "bpe", "vocab_size": 13},
        "augment": {"piece_dropout": 0.5},
        "model": {"size": "tiny", "output": "softmax"},
        "train": {"batch_s": 4.0, "save_every": 2, "warmup_steps": 2, "workers": 0},
    }
    canonical: dict[str, list[bool]] = {}
    take_step = Trainer._step

    def watched_step(trainer: Trainer, group: list[Batch]) -> object:
        seen = canonical.setdefault(trainer.run.root.name, [])
        heard = [utterance for batch in group for utterance in batch.utterances]
        assert all(spoken.decode(u.tokens) == u.text for u in heard)
        seen.append(all(list(u.tokens) == spoken.encode(u.text) for u in heard))
        measured = take_step(trainer, group)
        if trainer.progress.step == 2:  # the alignment is found
            trainer.progress.plain = False
        return measured

    monkeypatch.setattr(Trainer, "_step", watched_step)

    def run(name: str, steps: int, *, plain: bool = False) -> None:
        waiting = {"regularize_below": 0.5} if plain else {}
        train_section = {**sections["train"], **waiting, "max_steps": steps}
        recipe = validate_recipe({**sections, "train": train_section}, name="test")
        train(
            recipe, out=tmp_path / name, manifests=corpus.manifests, tokens=corpus.tokens, tree=None
        )

    run("waiting", 4, plain=True)
    assert canonical["waiting"] == [True, True, False, False]
    run("whole", 4)
    run("in-two", 2)
    run("in-two", 4)
    assert not any(canonical["whole"])
    assert step_losses(tmp_path / "in-two") == step_losses(tmp_path / "whole")
