"""`arborvox lm`: from texts to a file that the searches read, with the numbers it was made by."""

import gzip
import math
import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from arborvox.cli import main
from arborvox.decode.language_model import load_language_model, read_token
from arborvox.errors import ArborvoxError
from arborvox.lm.arpa import words_of_units
from arborvox.lm.making import number_words
from arborvox.manifest import Utterance, write_cuts
from arborvox.tokens import EOS_ID, Sentence, TextCorpus, Tokenizer, build_tokenizer

TRAIN = ["Bon dia a tothom.", "Què tal?", "Bona nit a tots", "El dia és bo.", "La nit és bona"] * 3
TEST = ["Bon dia a tots", "La nit és llarga"]


@pytest.fixture
def texts(tmp_path: Path) -> Path:
    folder = tmp_path / "texts"
    folder.mkdir()
    (folder / "ca.txt").write_text("\n".join([*TRAIN, "any 1714"]), encoding="utf-8")
    return folder


@pytest.fixture
def held_out(tmp_path: Path) -> Path:
    (tmp_path / "test").mkdir()
    path = tmp_path / "test" / "ca.txt"
    path.write_text("\n".join(TEST), encoding="utf-8")
    return path


def run(*arguments: object, code: int = 0) -> None:
    """Run a command, which must end with a code."""
    with pytest.raises(SystemExit) as stopped:
        main(list(map(str, arguments)))
    assert (stopped.value.code or 0) == code


def save_tokens(
    path: Path, corpus: Sequence[Sentence], unit: str = "char", vocab_size: int = 500
) -> Tokenizer:
    tokenizer = build_tokenizer(corpus, unit, vocab_size=vocab_size)
    tokenizer.save(path)
    return tokenizer


def perplexity_by_the_search(arpa: Path, tokenizer: Tokenizer, texts: Sequence[str]) -> float:
    """Return the perplexity that the searches would compute with a file."""
    lm = load_language_model(arpa, tokenizer)
    total, number = 0.0, 0
    for text in texts:
        state = lm.first_state
        for token in [*tokenizer.encode(text), EOS_ID]:
            score, state = read_token(lm, state, token)
            total, number = total + score, number + 1
    return math.exp(-total / number)


def told_perplexity(printed: str) -> float:
    found = re.search(r"held-out perplexity: ([\d.]+)", printed)
    assert found
    return float(found[1])


@pytest.mark.parametrize("unit", ["char", "bpe"])
@pytest.mark.parametrize("name", ["lm.arpa", "lm.arpa.gz"])
def test_the_search_reads_what_is_written(
    unit: str, name: str, texts: Path, held_out: Path, tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    corpus = list(TextCorpus([texts]))
    tokenizer = save_tokens(tmp_path / "tokens.json", corpus, unit, vocab_size=40)
    out = tmp_path / name
    options = ["--order", "4", "--held-out", held_out, "--prune", "0,0,0,1", "--out", out]
    run("lm", texts, "--tokens", tmp_path / "tokens.json", *options)
    captured = capsys.readouterr()
    assert "ca: 1 sentences left out (digits)" in captured.err
    test = [sentence.text for sentence in TextCorpus([held_out])]
    expected = perplexity_by_the_search(out, tokenizer, test)
    assert told_perplexity(captured.out) == pytest.approx(expected, rel=1e-4)


def test_the_space_has_a_name_and_lines_are_arpa(texts: Path, tmp_path: Path) -> None:
    save_tokens(tmp_path / "tokens.json", list(TextCorpus([texts])))
    out = tmp_path / "lm.arpa.gz"
    run("lm", texts, "--tokens", tmp_path / "tokens.json", "--order", "3", "--out", out)
    lines = gzip.decompress(out.read_bytes()).decode().splitlines()
    header = [int(line.partition("=")[2]) for line in lines if line.startswith("ngram ")]
    for n, size in enumerate(header, start=1):
        start = lines.index(f"\\{n}-grams:") + 1
        section = lines[start : lines.index("", start)]
        assert len(section) == size
        for line in section:
            assert re.fullmatch(r"-?\d+\.\d{6}\t\S+( \S+)*(\t-\d+\.\d{6})?", line)
            assert len(line.split("\t")[1].split()) == n
    assert lines[-1] == "\\end\\"
    assert any("\ta <space> t" in line for line in lines)


def test_a_share_is_held_out_with_all_its_repetitions(
    texts: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    save_tokens(tmp_path / "tokens.json", list(TextCorpus([texts])))
    options = ["--order", "3", "--held-out", "0.3", "--out", tmp_path / "lm.arpa"]
    run("lm", texts, "--tokens", tmp_path / "tokens.json", *options)
    captured = capsys.readouterr()
    counted = re.search(r"^([\d,]+) sentences", captured.err, re.MULTILINE)
    held = re.search(r"\((\d+) sentences", captured.out)
    assert counted and held
    assert int(counted[1]) + int(held[1]) == len(TRAIN)
    assert int(held[1]) % 3 == 0 and int(held[1]) > 0  # each sentence stands there three times


def test_sentences_on_both_sides_are_told(
    texts: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    save_tokens(tmp_path / "tokens.json", list(TextCorpus([texts])))
    (tmp_path / "test").mkdir()
    test = tmp_path / "test" / "ca.txt"
    test.write_text("Què tal?\nDe nou", encoding="utf-8")
    options = ["--order", "2", "--held-out", test, "--out", tmp_path / "lm.arpa"]
    run("lm", texts, "--tokens", tmp_path / "tokens.json", *options)
    assert "3 sentences of the texts stand in the held-out text too" in " ".join(
        capsys.readouterr().err.split()
    )


def test_prepared_corpora_give_their_training_text(tmp_path: Path) -> None:
    folder = tmp_path / "prepared"
    folder.mkdir()
    cuts = [Utterance(f"u{n}", "a.wav", "ca", t.lower(), 16000, 16000) for n, t in enumerate(TRAIN)]
    write_cuts(folder / "cuts_train.jsonl.gz", cuts)
    write_cuts(folder / "cuts_test.jsonl.gz", [Utterance("t", "a.wav", "ca", "ŷ", 16000, 16000)])
    tokenizer = save_tokens(tmp_path / "tokens.json", list(TextCorpus([folder])))
    out = tmp_path / "lm.arpa"
    run("lm", folder, "--tokens", tmp_path / "tokens.json", "--out", out)
    assert perplexity_by_the_search(out, tokenizer, [TRAIN[0].lower()]) < 3


def test_phones_are_not_normalized(tmp_path: Path) -> None:
    text = tmp_path / "phones.txt"
    text.write_text("tʰ a  N\nd͡ʒ a tʰ\n", encoding="utf-8")
    corpus = TextCorpus([text], text_language="abk", has_phones=True)
    assert [sentence.text for sentence in corpus] == ["tʰ a N", "d͡ʒ a tʰ"]
    tokenizer = save_tokens(tmp_path / "tokens.json", list(corpus), "phone")
    out = tmp_path / "lm.arpa"
    options = ["--order", "2", "--language", "abk", "--out", out]
    run("lm", text, "--tokens", tmp_path / "tokens.json", *options)
    assert "\ttʰ a\n" in out.read_text(encoding="utf-8")
    assert perplexity_by_the_search(out, tokenizer, ["tʰ a N"]) < 6


def test_units_that_the_vocabulary_lacks_are_told_and_not_listed(
    texts: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    save_tokens(tmp_path / "tokens.json", [Sentence("ca", "bon dia tothom")])
    out = tmp_path / "lm.arpa"
    run("lm", texts, "--tokens", tmp_path / "tokens.json", "--out", out)
    assert "are not in the vocabulary" in capsys.readouterr().err
    lines = out.read_text(encoding="utf-8").splitlines()
    assert len([line for line in lines if "<unk>" in line]) == 1


@pytest.mark.parametrize("options", [["--order", "6"], ["--order", "3", "--prune", "0,9"]])
def test_orders_without_an_n_gram_do_no_harm(
    options: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text, out = tmp_path / "ca.txt", tmp_path / "lm.arpa"
    text.write_text("ab\nb\na\nba\n", encoding="utf-8")
    tokenizer = save_tokens(tmp_path / "tokens.json", list(TextCorpus([text])))
    run("lm", text, "--tokens", tmp_path / "tokens.json", "--out", out, *options)
    assert "too few different counts" in capsys.readouterr().err
    assert 1 < perplexity_by_the_search(out, tokenizer, ["ab"]) < 4


def test_word_numbers_leave_language_tags_out() -> None:
    sentences = [Sentence("ca", "bon dia"), Sentence("es", "buen día")]
    tagged, plain = build_tokenizer(sentences, language_tags=True), build_tokenizer(sentences)
    for sentence in [*sentences, Sentence("ca", "ŷ <ca>")]:
        assert number_words(tagged, sentence) == number_words(plain, sentence)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--prune", "0,x"], "whole numbers separated by commas"),
        (["--prune", "1"], "must be 0"),
        (["--prune", "0,-1"], "whole numbers"),
        (["--out", "lm.bin"], "must end in .arpa"),
        (["--held-out", "1.5"], "between 0 and 1"),
        (["--held-out", "nan"], "between 0 and 1"),
        (["--held-out", "0.0000001"], "no sentence fell into so small a share"),
        (["--held-out", "absent.txt"], "There is no manifest, text file or folder"),
        (["--language", "klingonese"], "is no language code"),
        (["--languages", "fr"], "No sentence in fr"),
        (["--tokens", "absent.json"], "There is no file"),
    ],
)
def test_mistakes_are_told_in_a_sentence_and_nothing_is_written(
    arguments: list[str], told: str, texts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    save_tokens(tmp_path / "tokens.json", list(TextCorpus([texts])))
    monkeypatch.chdir(tmp_path)
    command = ["lm", str(texts), "--tokens", "tokens.json", "--out", "lm.arpa", "--order", "3"]
    run(*command, *arguments, code=2)
    assert told in " ".join(capsys.readouterr().err.split())
    assert not list(tmp_path.glob("lm.*"))


@pytest.mark.parametrize("units", [["a", " ", "<space>"], ["<s>", "a"], ["a b"], ["a", "\u00a0"]])
def test_units_that_an_arpa_file_cannot_tell_apart_are_refused(units: list[str]) -> None:
    with pytest.raises(ArborvoxError, match="ARPA file"):
        words_of_units(units)
