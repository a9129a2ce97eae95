"""The units of the next model: those of the last one, and what corrections have brought along."""

from collections.abc import Iterable
from pathlib import Path

from arborvox.config import Recipe
from arborvox.manifest import read_manifest
from arborvox.tokens import Tokenizer
from arborvox.tokens.building import build_tokenizer
from arborvox.tokens.corpus import Sentence
from arborvox.tokens.trees import build_tree
from arborvox.tree import save_tree


def write_vocabulary(
    parent: Path, recipe: Recipe, manifests: Iterable[Path], tokens: Path, tree: Path
) -> None:
    """Write the tokens for another round, and the tree over them if the parent has one.

    Nothing changes as long as the parent knows every letter. Pieces of BPE never do: a letter that
    they lack is unknown to the next model as well.
    """
    known = Tokenizer.load(parent / "tokens.json")
    sentences = [
        Sentence(utterance.language, utterance.text)
        for manifest in manifests
        for utterance in read_manifest(manifest)
    ]
    grown = known if known.unit == "bpe" else _grow(known, sentences)
    grown.save(tokens)
    has_tree = (parent / "tree.json").is_file()
    if has_tree and grown is known:
        tree.write_bytes((parent / "tree.json").read_bytes())
    elif has_tree:
        config = recipe.tree
        built = build_tree(
            grown, config.kind, weighting=config.weighting, seed=config.seed, embedding_from=parent
        )
        save_tree(built, tree)


def _grow(known: Tokenizer, sentences: list[Sentence]) -> Tokenizer:
    """Add the units and languages that are new; what was counted before is not counted again."""
    languages = {sentence.language for sentence in sentences}
    if languages <= set(known.languages) and not any(
        known.count_unknown(sentence.text) for sentence in sentences
    ):
        return known
    units = known.units[known.num_special :]
    found = build_tokenizer(
        sentences,
        known.unit,
        graphemes=known.graphemes,
        language_tags=known.language_tags,
        more=units,
    )
    every = sorted({*known.languages, *found.languages})
    special = [*known.units[:2], *(f"<{name}>" for name in every if known.language_tags)]
    vocabulary = (*special, *found.units[found.num_special :])
    old, new = _by_unit(known), _by_unit(found)
    counts = {
        language: tuple(
            old[language].get(unit, new.get(language, {}).get(unit, 0))
            if language in old
            else new[language].get(unit, 0)
            for unit in vocabulary
        )
        for language in every
    }
    return Tokenizer(
        known.unit, vocabulary, counts, known.language_tags, known.graphemes, known.model
    )


def _by_unit(tokenizer: Tokenizer) -> dict[str, dict[str, int]]:
    return {
        language: dict(zip(tokenizer.units, row, strict=True))
        for language, row in tokenizer.counts.items()
    }
