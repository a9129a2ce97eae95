"""KenLM's own programs beside ours: the same sentences, cut and held out in the same way."""

import re
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from arborvox.lm import EstimationConfig, estimate_ngrams, measure_perplexity, write_arpa
from arborvox.lm.arpa import BEGIN, END, SPACE, UNKNOWN
from arborvox.lm.counting import FIRST_WORD, UNKNOWN_WORD
from arborvox.tokens import Sentence

HELD_OUT_EVERY = 20  # sentences
MEMORY = "1G"


class Setting(NamedTuple):
    """What a model is made of, and how."""

    unit: str  # char | word
    order: int
    cut_offs: tuple[int, ...] = (0,)


SETTINGS = (
    Setting("char", 6),
    Setting("char", 6, (0, 0, 0, 1, 1, 2)),
    Setting("word", 3),
    Setting("word", 5, (0, 0, 1)),
)


class Agreement(NamedTuple):
    """Perplexities of a held-out text, unknown words included."""

    ours: float
    theirs: float  # lmplz's model, by KenLM's query
    ours_read_by_query: float  # our ARPA file, by KenLM's query


def cut(text: str, unit: str) -> list[str]:
    """Cut a text into characters or words, as they stand between the spaces of lmplz's input."""
    return [SPACE if c == " " else c for c in text] if unit == "char" else text.split()


def lmplz_command(programs: Path, order: int, cut_offs: Sequence[int], scratch: Path) -> list[str]:
    """Return the command that makes a model out of standard input."""
    options = ["-o", str(order), "--prune", *map(str, cut_offs), "--discount_fallback"]
    return [str(programs / "lmplz"), *options, "-S", MEMORY, "-T", str(scratch)]


def compare(
    programs: Path, sentences: Iterable[Sentence], setting: Setting, scratch: Path
) -> Agreement:
    """Make a model with each, and measure the same held-out sentences."""
    texts = [cut(sentence.text, setting.unit) for sentence in sentences]
    test = texts[::HELD_OUT_EVERY]
    train = [text for number, text in enumerate(texts) if number % HELD_OUT_EVERY]
    words = sorted({word for text in train for word in text})
    numbers = {word: number for number, word in enumerate(words, start=FIRST_WORD)}
    config = EstimationConfig(setting.order, setting.cut_offs)
    numbered = ([numbers[word] for word in text] for text in train)
    ours_arpa, theirs_arpa = scratch / "ours.arpa", scratch / "theirs.arpa"
    with estimate_ngrams(numbered, FIRST_WORD + len(words), config) as model:
        ours = measure_perplexity(
            model, ([numbers.get(word, UNKNOWN_WORD) for word in text] for text in test)
        )
        write_arpa(ours_arpa, model, ["", UNKNOWN, BEGIN, END, *words])
    command = lmplz_command(programs, setting.order, config.cut_off_by_order, scratch)
    with theirs_arpa.open("wb") as arpa:
        quiet = subprocess.DEVNULL
        subprocess.run(command, input=_lines(train), stdout=arpa, stderr=quiet, check=True)
    return Agreement(
        ours.value, query(programs, theirs_arpa, test), query(programs, ours_arpa, test)
    )


def query(programs: Path, arpa: Path, texts: Sequence[Sequence[str]]) -> float:
    """Return the perplexity, unknown words included, that KenLM's query tells."""
    command = [str(programs / "query"), "-v", "summary", str(arpa)]
    done = subprocess.run(command, input=_lines(texts), capture_output=True, check=True)
    found = re.search(r"including OOVs:\s*([\d.]+)", done.stdout.decode())
    if found is None:
        raise RuntimeError(f"query told no perplexity: {done.stderr.decode()}")
    return float(found[1])


def _lines(texts: Sequence[Sequence[str]]) -> bytes:
    return "".join(" ".join(text) + "\n" for text in texts).encode()
