"""Vocabularies out of sentences: which units there are, and how often."""

from collections import Counter
from collections.abc import Collection, Iterable

from arborvox.errors import ArborvoxError
from arborvox.tokens.corpus import Sentence
from arborvox.tokens.segmentation import Pieces, train_pieces
from arborvox.tokens.tokenizer import (
    EOS_ID,
    Tokenizer,
    segmentation_for,
    special_units,
)


def build_tokenizer(
    corpus: Iterable[Sentence],
    unit: str = "char",
    *,
    vocab_size: int = 500,
    graphemes: bool = False,
    byte_fallback: bool = False,
    language_tags: bool = False,
    more: Collection[str] = (),
) -> Tokenizer:
    """Build the vocabulary of a corpus (which is read twice); units are sorted by code point.

    `vocab_size` is the whole vocabulary of BPE, special tokens and tags included. Units of `more`
    are added with a count of 0 where the corpus has none of them.
    """
    if unit == "bpe":
        if more:
            raise ArborvoxError("Units can be added to characters and phones, not to BPE pieces.")
        languages, units, model = _train_bpe(corpus, vocab_size, byte_fallback, language_tags)
    else:
        languages, units = _collect_units(corpus, unit, graphemes)
        units.update(more)
        model = None
    special = special_units(languages, language_tags)
    for taken in sorted(set(special) & units):
        raise ArborvoxError(f"The corpus has a unit {taken!r}, which is a special token's name.")
    if len(units) < 2:
        raise ArborvoxError(
            f"The corpus has one single unit, {next(iter(units), '')!r}; "
            f"there is nothing to tell apart."
        )
    vocabulary = (*special, *sorted(units))
    uncounted = {language: (0,) * len(vocabulary) for language in languages}
    tokenizer = Tokenizer(unit, vocabulary, uncounted, language_tags, graphemes, model)
    counts = count_tokens(tokenizer, corpus)
    return Tokenizer(unit, vocabulary, counts, language_tags, graphemes, model)


def count_tokens(tokenizer: Tokenizer, corpus: Iterable[Sentence]) -> dict[str, tuple[int, ...]]:
    """Count tokens by language, <eos> (and the tag) once an utterance, <unk> where it stands."""
    counters: dict[str, Counter[int]] = {}
    for sentence in corpus:
        counter = counters.setdefault(sentence.language, Counter())
        counter.update(tokenizer.encode(sentence.text, sentence.language))
        counter[EOS_ID] += 1
    return {
        language: tuple(counter[token] for token in range(len(tokenizer)))
        for language, counter in sorted(counters.items())
    }


def _collect_units(
    corpus: Iterable[Sentence], unit: str, graphemes: bool
) -> tuple[set[str], set[str]]:
    segmentation = segmentation_for(unit, graphemes=graphemes, model=None)
    languages, units = set(), set()
    for sentence in corpus:
        languages.add(sentence.language)
        units.update(segmentation.split(sentence.text))
    return languages, units


def _train_bpe(
    corpus: Iterable[Sentence], vocab_size: int, byte_fallback: bool, language_tags: bool
) -> tuple[set[str], set[str], bytes]:
    sentences = list(corpus)
    languages = {sentence.language for sentence in sentences}
    num_pieces = vocab_size - len(special_units(languages, language_tags))
    if num_pieces < 2:
        raise ArborvoxError(f"A BPE vocabulary of {vocab_size} leaves no room for pieces.")
    model = train_pieces(
        (sentence.text for sentence in sentences), num_pieces, byte_fallback=byte_fallback
    )
    return languages, set(Pieces(model).pieces), model
