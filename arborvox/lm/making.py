"""`arborvox lm`: a language model of texts over the units of a vocabulary."""

import zlib
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rich.table import Table

from arborvox.console import say, show, warn
from arborvox.errors import ArborvoxError
from arborvox.lm.arpa import BEGIN, END, UNKNOWN, words_of_units, write_arpa
from arborvox.lm.counting import FIRST_WORD, UNKNOWN_WORD
from arborvox.lm.estimation import EstimationConfig, estimate_ngrams
from arborvox.lm.kneser_ney import NgramModel
from arborvox.lm.scoring import Perplexity, measure_perplexity
from arborvox.tokens.corpus import Sentence, TextCorpus
from arborvox.tokens.reports import report_skipped
from arborvox.tokens.tokenizer import Tokenizer

ARPA_SUFFIXES = (".arpa", ".arpa.gz")


@dataclass
class _Reading:
    """The sentences of texts as word numbers, and what was seen on the way."""

    tokenizer: Tokenizer
    corpus: TextCorpus
    held_out_share: float = 0.0
    held_out_marks: frozenset[int] = frozenset()  # of sentences in a held-out file
    held_out: list["array[int]"] = field(default_factory=list)
    num_sentences: int = 0
    num_units: int = 0
    num_unknown: int = 0
    num_repeated: int = 0  # sentences that the held-out file has too

    def __iter__(self) -> Iterator[Sequence[int]]:
        """Yield the sentences to be counted; put the others aside."""
        for sentence in self.corpus:
            words = number_words(self.tokenizer, sentence)
            mark = _mark(sentence)
            if mark < self.held_out_share * 2**32:
                self.held_out.append(array("I", words))
                continue
            self.num_sentences += 1
            self.num_units += len(words)
            self.num_unknown += words.count(UNKNOWN_WORD)
            self.num_repeated += mark in self.held_out_marks
            yield words


def make_language_model(
    sources: Sequence[Path],
    tokens: Path,
    out: Path,
    config: EstimationConfig,
    *,
    held_out: str | None = None,
    languages: Sequence[str] | None = None,
    language: str | None = None,
) -> None:
    """Count the units of texts, write the smoothed model, and tell how well it predicts."""
    if not out.name.endswith(ARPA_SUFFIXES):
        raise ArborvoxError(f"{out}: the language model's name must end in .arpa or .arpa.gz.")
    tokenizer = Tokenizer.load(tokens)
    units = tokenizer.units[tokenizer.num_special :]
    words = ["", UNKNOWN, BEGIN, END, *words_of_units(units)]
    corpus = _corpus_of(sources, tokenizer, languages, language)
    share = _share_of(held_out)
    test = None
    if held_out is not None and share is None:
        test = _corpus_of([Path(held_out)], tokenizer, languages, language)
    marks = frozenset(map(_mark, test)) if test else frozenset()
    reading = _Reading(tokenizer, corpus, share or 0.0, marks)
    with estimate_ngrams(reading, len(words), config) as model:
        _report_reading(reading)
        if share is not None and not reading.held_out:
            raise ArborvoxError(f"--held-out {held_out}: no sentence fell into so small a share.")
        write_arpa(out, model, words)
        _show_model(model)
        if test is not None:
            _show_perplexity(
                measure_perplexity(model, (number_words(tokenizer, line) for line in test))
            )
        elif share is not None:
            _show_perplexity(measure_perplexity(model, reading.held_out))
    say(f"wrote {out}")


def number_words(tokenizer: Tokenizer, sentence: Sentence) -> list[int]:
    """Return the word number of each unit of a sentence."""
    shift, first = FIRST_WORD - tokenizer.num_special, tokenizer.num_special
    ids = tokenizer.encode(sentence.text)
    return [token + shift if token >= first else UNKNOWN_WORD for token in ids]


def _corpus_of(
    sources: Sequence[Path],
    tokenizer: Tokenizer,
    languages: Sequence[str] | None,
    language: str | None,
) -> TextCorpus:
    return TextCorpus(
        sources, languages, text_language=language, has_phones=tokenizer.unit == "phone"
    )


def _mark(sentence: Sentence) -> int:
    """Return a number of 32 bits: the same sentence is held out wherever it stands."""
    return zlib.crc32(sentence.text.encode())


def _share_of(held_out: str | None) -> float | None:
    """Return the share that a number between 0 and 1 asks for; anything else names a file."""
    if held_out is None:
        return None
    try:
        share = float(held_out)
    except ValueError:
        return None
    if not 0 < share < 1:
        raise ArborvoxError(
            f"--held-out {held_out}: a share of the sentences lies between 0 and 1."
        )
    return share


def _report_reading(reading: _Reading) -> None:
    report_skipped(reading.corpus)
    say(f"{reading.num_sentences:,} sentences, {reading.num_units:,} units")
    if reading.num_unknown:
        part = 100 * reading.num_unknown / reading.num_units
        warn(
            f"{reading.num_unknown:,} units ({part:.2f} %) are not in the vocabulary; no n-gram "
            f"with one of them is listed"
        )
    if reading.num_repeated:
        warn(
            f"{reading.num_repeated:,} sentences of the texts stand in the held-out text too, "
            f"which makes its perplexity too low"
        )


def _show_model(model: NgramModel) -> None:
    table = Table("order", "n-grams", "kept", "D1", "D2", "D3+", box=None, pad_edge=False)
    for column in table.columns:
        column.justify = "right"
    for n, discounts in enumerate(model.discounts, start=1):
        rows = model.table.rows(n)
        sizes = (f"{rows.stop - rows.start:,}", f"{model.num_kept(n):,}")
        table.add_row(str(n), *sizes, *(f"{amount:.3f}" for amount in discounts.amounts))
    show(table)
    if orders := [str(n) for n, d in enumerate(model.discounts, start=1) if d.is_fallback]:
        say(
            f"order {', '.join(orders)}: too few different counts to estimate discounts from; "
            f"the usual ones are taken"
        )


def _show_perplexity(perplexity: Perplexity) -> None:
    told = f"held-out perplexity: {perplexity.value:.4f} a unit"
    told += f" ({perplexity.num_sentences:,} sentences, {perplexity.num_predicted:,} units)"
    show(told)
    if perplexity.num_unknown:
        show(
            f"without the {perplexity.num_unknown:,} units that the model does not list: "
            f"{perplexity.without_unknown:.4f}"
        )
