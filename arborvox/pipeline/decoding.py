"""Decoding the test set, freely or with each language's own inventory of units."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from arborvox.config import CorpusConfig, DecodeConfig, Recipe
from arborvox.corpora import find_inventories
from arborvox.decode.corpus_decoding import decode_with
from arborvox.decode.encoded_memory import EncodedMemory
from arborvox.decode.engine import load_engine
from arborvox.decode.searches import SEARCHES, SearchKind, choose_search
from arborvox.decode.timing import join_timings, read_timing
from arborvox.digests import checksum_file, digest_files, digest_value
from arborvox.errors import ArborvoxError
from arborvox.files import path_below, write_json_atomic, write_text_atomic
from arborvox.manifest import split_by_language
from arborvox.pipeline.work import LM
from arborvox.team import this_team
from arborvox.text.codes import file_stem
from arborvox.tokens import Tokenizer

HYPOTHESES, TIMING = "hyps.jsonl", "hyps.timing.json"
# `decode.inventories` → the ways of decoding, as the report knows them.
DECODE_SETTINGS = {
    "none": ("free",),
    "corpus": ("inventory",),
    "both": ("free", "inventory"),
}


def check_search(recipe: Recipe, variant: str) -> SearchKind:
    """Return a variant's search; refuse one that the model could not do before it is trained."""
    config = recipe.decode
    made = None if config.transcripts_lm is None else Path(LM)
    try:
        search = choose_search(
            config.whole(lm=config.lm or made, transcripts_lm=None),
            has_ctc=recipe.model.ctc_weight > 0,
            has_decoder=recipe.model.decoder != "none",
        )
    except ArborvoxError as error:
        raise ArborvoxError(f"variant {variant}: decode: {error}") from None
    for key in ("lm", "inventory"):
        path = getattr(config, key)
        if path is not None and not path.is_file():
            raise ArborvoxError(f"variant {variant}: decode.{key}: there is no file {path}.")
    return SEARCHES[search]


def decode_test_set(
    config: DecodeConfig,
    setting: str,
    corpus: CorpusConfig,
    run: Path,
    cuts: Path,
    tokens: Path,
    memory: EncodedMemory,
    folder: Path,
) -> None:
    """Write the hypotheses of a test set and the times that they took."""
    # Nothing is left open: the recipe's own search, not the one that the checkpoint remembers.
    engine = load_engine(run, config.whole())
    memory.turn_to(digest_value([dict(engine.checksums), engine.network.precision]))
    engine.network.memory = memory
    if setting == "free":
        decode_with(engine, cuts, folder / HYPOTHESES)
        return
    languages = split_by_language(cuts, folder / "languages")
    inventories = _find_inventories(corpus, list(languages), tokens, folder / "inventories")
    parts = []
    for language, manifest in languages.items():
        part = manifest.with_name(f"{file_stem(language)}.jsonl")
        engine.use_inventory(inventories[language])
        decode_with(engine, manifest, part)
        parts.append(part)
    if this_team().first:
        timings = [read_timing(part.with_suffix(".timing.json")) for part in parts]
        write_json_atomic(folder / TIMING, asdict(join_timings(timings)))
        _join_hypotheses(parts, cuts, folder / HYPOTHESES)


def inventory_mark(corpus: CorpusConfig) -> str:
    """Return the mark of the inventories that a corpus brings along."""
    files = find_inventories(corpus) or {}
    return digest_value({language: digest_files(path) for language, path in files.items()})


def corpus_inventories(corpus: CorpusConfig) -> dict[str, Path]:
    """Return the corpus's own files of units by language, or say that it has none."""
    files = find_inventories(corpus)
    if not files:
        raise ArborvoxError(
            f"tokens.inventories: a corpus of kind {corpus.kind} in {corpus.source} brings no "
            "lists of units along; set it to false."
        )
    return files


def _find_inventories(
    corpus: CorpusConfig, languages: list[str], tokens: Path, folder: Path
) -> dict[str, Path]:
    """Take the corpus's own inventories, or else the units that each language was trained with."""
    found = find_inventories(corpus)
    if found is not None:
        for language in languages:
            if language not in found:
                raise ArborvoxError(
                    f"{corpus.source} has no inventory of units for {language}; set "
                    "decode.inventories to none."
                )
        return {language: found[language] for language in languages}
    tokenizer = Tokenizer.load(tokens)
    inventories = {}
    for language in languages:
        if language not in tokenizer.counts:
            raise ArborvoxError(
                f"{language} was not heard in training, so its units are not known; set "
                "decode.inventories to none."
            )
        counted = zip(tokenizer.units, tokenizer.counts[language], strict=True)
        units = [unit for unit, count in list(counted)[tokenizer.num_special :] if count]
        inventories[language] = path_below(folder, f"{file_stem(language)}.txt")
        listed = "".join(f"{unit}\n" for unit in units if not unit.isspace())
        write_text_atomic(inventories[language], listed)
    return inventories


def _join_hypotheses(parts: list[Path], cuts: Path, out: Path) -> None:
    """Put the languages' hypotheses into one file under one header."""
    header: dict[str, Any] = {}
    entries: list[str] = []
    for part in parts:
        # Not by splitlines: a text may hold other line separators, which JSON leaves as they are.
        first, *rest = part.read_text(encoding="utf-8").removesuffix("\n").split("\n")
        header = json.loads(first)
        entries += rest
    header["manifest"] = str(cuts)
    header["settings"]["inventory"] = "each language's own"
    header["sha256"] |= {"manifest": checksum_file(cuts), "inventory": None}
    lines = [json.dumps(header, ensure_ascii=False), *entries]
    write_text_atomic(out, "".join(f"{line}\n" for line in lines))
