"""The same perplexity as KenLM's own estimator, which is built from a source folder for this."""

import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from arborvox.lm import EstimationConfig, estimate_ngrams, measure_perplexity, write_arpa
from arborvox.lm.arpa import BEGIN, END, SPACE, UNKNOWN
from arborvox.lm.counting import FIRST_WORD, UNKNOWN_WORD
from arborvox.tokens import TextCorpus

LARGEST_DIFFERENCE = 0.005
HELD_OUT_EVERY = 20  # sentences

pytestmark = [pytest.mark.slow, pytest.mark.real_data]


@pytest.fixture(scope="module")
def kenlm(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of KenLM's programs, built from the source that KENLM_SOURCE names."""
    source = os.environ.get("KENLM_SOURCE")
    if not source:
        pytest.skip("set KENLM_SOURCE to a folder of KenLM's source to compare with lmplz")
    missing = [program for program in ("cmake", "make", "c++") if not shutil.which(program)]
    if missing:
        pytest.skip(f"KenLM cannot be built without {', '.join(missing)}")
    build = tmp_path_factory.mktemp("kenlm")
    steps = [
        ["cmake", "-S", source, "-B", str(build), "-DCMAKE_BUILD_TYPE=Release"],
        ["cmake", "--build", str(build), "--target", "lmplz", "query"],
    ]
    for step in steps:
        done = subprocess.run(step, capture_output=True, text=True, check=False)
        if done.returncode:
            pytest.skip(f"KenLM cannot be built here: {done.stderr.strip()[-300:]}")
    return build / "bin"


def cut(text: str, unit: str) -> list[str]:
    """Cut a text into characters or words, as they stand between the spaces of lmplz's input."""
    return [SPACE if c == " " else c for c in text] if unit == "char" else text.split()


@pytest.mark.parametrize(
    ("unit", "order", "cut_offs"),
    [("char", 6, (0,)), ("char", 6, (0, 0, 0, 1, 1, 2)), ("word", 3, (0,)), ("word", 5, (0, 0, 1))],
)
def test_perplexity_is_that_of_lmplz(
    unit: str, order: int, cut_offs: tuple[int, ...], kenlm: Path, data_root: Path, tmp_path: Path
) -> None:
    sentences = [cut(sentence.text, unit) for sentence in TextCorpus([data_root / "text"])]
    test = sentences[::HELD_OUT_EVERY]
    train = [s for number, s in enumerate(sentences) if number % HELD_OUT_EVERY]
    words = sorted({word for sentence in train for word in sentence})
    numbers = {word: number for number, word in enumerate(words, start=FIRST_WORD)}
    config = EstimationConfig(order, cut_offs)
    numbered = ([numbers[word] for word in sentence] for sentence in train)
    with estimate_ngrams(numbered, FIRST_WORD + len(words), config) as model:
        ours = measure_perplexity(
            model, ([numbers.get(word, UNKNOWN_WORD) for word in sentence] for sentence in test)
        )
        write_arpa(tmp_path / "ours.arpa", model, ["", UNKNOWN, BEGIN, END, *words])
    estimate = [str(kenlm / "lmplz"), "-o", str(order), "--discount_fallback", "-S", "1G"]
    estimate += ["-T", str(tmp_path), "--prune", *map(str, config.cut_off_by_order)]
    with (tmp_path / "theirs.arpa").open("wb") as arpa:
        quiet = subprocess.DEVNULL
        subprocess.run(estimate, input=_lines(train), stdout=arpa, stderr=quiet, check=True)
    theirs = query(kenlm, tmp_path / "theirs.arpa", test)
    read_by_theirs = query(kenlm, tmp_path / "ours.arpa", test)
    print(f"{unit} {order} {cut_offs}: {ours.value} {theirs} {read_by_theirs}")
    assert ours.value == pytest.approx(theirs, rel=LARGEST_DIFFERENCE)
    assert read_by_theirs == pytest.approx(theirs, rel=LARGEST_DIFFERENCE)


def query(kenlm: Path, arpa: Path, sentences: Sequence[Sequence[str]]) -> float:
    """Return the perplexity, unknown words included, that KenLM's query tells."""
    done = subprocess.run(
        [kenlm / "query", "-v", "summary", arpa], input=_lines(sentences), capture_output=True,
        check=True,
    )  # fmt: skip
    found = re.search(r"including OOVs:\s*([\d.]+)", done.stdout.decode())
    assert found, done.stderr.decode()
    return float(found[1])


def _lines(sentences: Sequence[Sequence[str]]) -> bytes:
    return "".join(" ".join(sentence) + "\n" for sentence in sentences).encode()
