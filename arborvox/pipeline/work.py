"""What each stage does, in terms of the rest of the toolkit."""

from collections.abc import Iterable
from pathlib import Path

from arborvox.config import (
    CorpusConfig,
    Recipe,
    ReportConfig,
    TokensConfig,
    TrainConfig,
    TreeConfig,
)
from arborvox.corpora import prepare
from arborvox.corpora.checks import check_codes
from arborvox.corpora.manifests import STATS_NAME
from arborvox.files import expand_place, write_json_atomic
from arborvox.inventory_files import read_inventories
from arborvox.lm import EstimationConfig
from arborvox.lm.making import make_language_model
from arborvox.manifest import read_manifest, split_file
from arborvox.model.encoders import is_frozen
from arborvox.pipeline.stages import RunInterruptedError
from arborvox.processes import count_cores
from arborvox.score import read_hypotheses, score_hypotheses, scores_as_json
from arborvox.tokens import TextCorpus, Tokenizer, build_tokenizer
from arborvox.tokens.reports import report_skipped
from arborvox.tokens.trees import build_tree
from arborvox.train import train
from arborvox.training.state import RunFolder, load_progress
from arborvox.tree import save_tree

TRAIN_CUTS, DEV_CUTS, TEST_CUTS = (split_file(split) for split in ("train", "dev", "test"))
PREPARED = (TRAIN_CUTS, DEV_CUTS, TEST_CUTS, STATS_NAME)
TOKENS, TREE, LM = "tokens.json", "tree.json", "lm.arpa"
FINAL = "final"
TRAINED = (f"{FINAL}/model.safetensors", f"{FINAL}/config.yaml", "metrics.jsonl")
SCORES = "scores.json"


def locate_corpus(corpus: CorpusConfig) -> CorpusConfig:
    """Put in what a recipe leaves to the machine, as in `source: ${ARBORVOX_DATA}/ucla`."""
    check_codes(corpus)
    places = {
        key: None
        if (place := getattr(corpus, key)) is None
        else expand_place(place, f"corpus.{key}")
        for key in corpus.places
    }
    more = tuple(map(locate_corpus, corpus.more))
    return corpus.model_copy(update={**places, "more": more})


def corpus_sources(corpus: CorpusConfig) -> list[Path]:
    """What a corpus is made from: recordings, or the sentences of a synthetic one."""
    own = [Path(origin) for origin in corpus.origins if origin]
    return own + [source for part in corpus.more for source in corpus_sources(part)]


def prepare_corpus(corpus: CorpusConfig, folder: Path) -> None:
    """Turn recordings into manifests; a synthetic corpus is spoken into the stage's folder."""
    prepare(corpus, folder, jobs=count_cores())


def read_test_set(cuts: Path) -> list[tuple[str, str, str]]:
    """List what is asked in a test: utterance, language and text."""
    return sorted((asked.id, asked.language, asked.text) for asked in read_manifest(cuts))


def build_tokens(
    config: TokensConfig, cuts: Path, folder: Path, inventories: Iterable[Path] = ()
) -> None:
    """Collect the units of the training set, and those of inventories."""
    corpus = TextCorpus([cuts])
    tokenizer = build_tokenizer(
        corpus,
        config.unit,
        vocab_size=config.vocab_size,
        graphemes=config.graphemes,
        byte_fallback=config.byte_fallback,
        language_tags=config.language_tags,
        more=read_inventories(inventories),
    )
    report_skipped(corpus)
    tokenizer.save(folder / TOKENS)


def build_code_tree(
    config: TreeConfig, tokens: Path, checkpoint: Path | None, seed: int, folder: Path
) -> None:
    """Build the code tree over the units."""
    tree = build_tree(
        Tokenizer.load(tokens),
        config.kind,
        weighting=config.weighting,
        seed=seed,
        embedding_from=checkpoint,
    )
    save_tree(tree, folder / TREE)


def build_language_model(order: int, cuts: Path, tokens: Path, folder: Path) -> None:
    """Count what the training set says, as `arborvox lm` does."""
    config = EstimationConfig(order)
    make_language_model([cuts], tokens, folder / LM, config)


def share_states(recipe: Recipe, folder: Path) -> Recipe:
    """Let a frozen encoder keep its states where all models of the experiment find them."""
    if recipe.features.cache is not None or not is_frozen(recipe.model):
        return recipe
    features = recipe.features.model_copy(update={"cache": str(folder)})
    return recipe.model_copy(update={"features": features})


def train_model(
    recipe: Recipe, folder: Path, manifests: Path, tokens: Path, tree: Path | None
) -> None:
    """Train, or go on training."""
    result = train(
        recipe,
        out=folder,
        manifests=manifests,
        tokens=tokens,
        tree=tree,
        same_start=True,  # the stage knows the weights by their content
    )
    if result.interrupted:
        raise RunInterruptedError


def outgrew(folder: Path, config: TrainConfig) -> bool:
    """Whether a run went further than its recipe now says."""
    state = RunFolder(folder).newest_state()
    return state is not None and load_progress(state).outgrew(config)


def score_test_set(config: ReportConfig, hypotheses: Path, folder: Path) -> None:
    """Count errors, with intervals."""
    file = read_hypotheses(hypotheses)
    scores = score_hypotheses(
        file.transcriptions, file.unit, seed=config.seed, num_samples=config.samples
    )
    write_json_atomic(folder / SCORES, scores_as_json(scores, file))
