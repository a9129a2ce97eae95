"""What has to be done for an experiment: stages, each once, shared by all that need the same."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from arborvox.config import DecodeConfig, Recipe, TokensConfig, TrainConfig
from arborvox.decode.encoded_memory import EncodedMemory
from arborvox.digests import digest_value
from arborvox.errors import ArborvoxError
from arborvox.files import expand_place, path_below
from arborvox.model.checkpoint import WEIGHTS, find_checkpoint
from arborvox.model.encoders import base_model_files
from arborvox.model.outputs import needs_tree
from arborvox.pipeline import work
from arborvox.pipeline.decoding import (
    DECODE_SETTINGS,
    HYPOTHESES,
    TIMING,
    check_search,
    corpus_inventories,
    decode_test_set,
    inventory_mark,
)
from arborvox.pipeline.fingerprints import digest_listing, digest_source
from arborvox.pipeline.stages import Stage, was_made_with
from arborvox.pipeline.variants import Variant, order_by_need
from arborvox.score.storage import SCORES_VERSION
from arborvox.training.state import FREE_KEYS, LEARNED_SECTIONS
from arborvox.tree import TREES

KINDS = ("prepare", "tokens", "tree", "lm", "train", "decode", "score")
# What frozen encoders say of the corpus, once for all models of an experiment.
STATES = "states"
# These change neither a model nor its way there.
WITHOUT_EFFECT = {"train": {"workers", "keep", "init_from"}, "features": {"cache"}}
# Of the decode section: on what machine, not what is searched.
MACHINE_KEYS = {"device", "batch_s"}
# With a cosine the end shapes the way; other schedules may be prolonged.
LENGTH_KEYS = frozenset({"train.max_epochs", "train.max_steps"})


@dataclass(frozen=True)
class Leg:
    """One variant with one seed, and its stages; a setting of decoding has two of its own."""

    variant: Variant
    seed: int
    recipe: Recipe
    prepare: Stage
    tokens: Stage
    tree: Stage | None
    lm: Stage | None  # of the training transcripts
    train: Stage
    decodes: dict[str, Stage] = field(default_factory=dict)
    scores: dict[str, Stage] = field(default_factory=dict)

    @property
    def stages(self) -> list[Stage]:
        """All stages in the order of work."""
        first = [self.prepare, self.tokens, self.tree, self.lm, self.train]
        made = [stage for stage in first if stage is not None]
        return [*made, *self.decodes.values(), *self.scores.values()]


@dataclass(frozen=True)
class Plan:
    """All legs, seed by seed, so that a whole comparison is there as early as can be."""

    out: Path
    legs: tuple[Leg, ...]

    @property
    def prepares(self) -> list[Stage]:
        """The stages that get the data: all at first, so that their faults are found first."""
        return [stage for stage in self.stages if stage.kind == "prepare"]

    @property
    def stages(self) -> list[Stage]:
        """Every stage once, in an order in which it can be done."""
        seen: dict[Path, Stage] = {}
        for leg in self.legs:
            for stage in leg.stages:
                seen.setdefault(stage.folder, stage)
        return list(seen.values())


def make_plan(
    variants: Sequence[Variant], seeds: Sequence[int], out: Path, chosen: Sequence[str] = ()
) -> Plan:
    """Lay out the work of a comparison: of all variants, or of some chosen ones."""
    needs = {variant.name: _needed_names(variant, variants, seeds[0]) for variant in variants}
    order = order_by_need(needs)
    place = {variant.name: variant for variant in variants}
    planner = _Planner(out, many_seeds=len(seeds) > 1)
    # All are planned, so that work has the place that it has in the whole comparison.
    legs = [planner.leg(place[name], seed) for seed in seeds for name in order]
    if chosen:
        legs = _choose_legs(legs, chosen)
    _check_comparable([leg for leg in legs if leg.decodes])
    return Plan(out, tuple(legs))


def _choose_legs(legs: Sequence[Leg], chosen: Sequence[str]) -> list[Leg]:
    """Keep the legs of chosen variants whole, and of others the models that these start from."""
    scored = list(dict.fromkeys(leg.variant.name for leg in legs if leg.decodes))
    if unknown := [name for name in chosen if name not in scored]:
        raise ArborvoxError(
            f"--variants {unknown[0]}: the recipe scores no such variant; it has "
            f"{', '.join(scored)}."
        )
    whole = [leg for leg in legs if leg.variant.name in chosen]
    needed = _folders_of([stage for leg in whole for stage in leg.stages])
    there = {leg.train.folder for leg in whole}
    kept = []
    for leg in legs:
        if leg.variant.name in chosen:
            kept.append(leg)
        elif leg.train.folder in needed - there:
            kept.append(replace(leg, lm=None, decodes={}, scores={}))
    return kept


def _folders_of(stages: Iterable[Stage]) -> set[Path]:
    """Return where stages work, and all that come before them."""
    return {folder for s in stages for folder in ({s.folder} | _folders_of(s.after))}


def _check_comparable(legs: Sequence[Leg]) -> None:
    """Refuse models of which no table could hold all."""
    if not set.intersection(*(set(leg.decodes) for leg in legs)):
        names = ", ".join(dict.fromkeys(leg.variant.name for leg in legs))
        raise ArborvoxError(
            f"The variants {names} cannot be compared: decode.inventories is none for some and "
            "corpus for others; set it to both."
        )


def _needed_names(variant: Variant, variants: Iterable[Variant], seed: int) -> set[str]:
    recipe = variant.recipe(seed)
    named = {recipe.train.init_from}
    if TREES[recipe.tree.kind].needs_vectors:
        named.add(recipe.tree.embedding_from)
    return {other.name for other in variants if other.name in named}


class _Planner:
    """Makes stages, giving the same one to all who ask for the same work."""

    def __init__(self, out: Path, *, many_seeds: bool) -> None:
        self._out = out
        self._many_seeds = many_seeds
        self._memory = EncodedMemory()  # of the model that was decoded last
        self._stages: dict[str, Stage] = {}
        self._trained: dict[tuple[str, int], Stage] = {}

    def leg(self, variant: Variant, seed: int) -> Leg:
        """Plan one variant with one seed; the variants that it needs were planned before."""
        recipe = variant.recipe(seed)
        prepare = self._prepare(variant, recipe)
        tokens = self._tokens(variant, recipe, prepare)
        tree = self._tree(variant, recipe, tokens, seed)
        lm = self._lm(variant, recipe, prepare, tokens)
        train = self._train(variant, recipe, seed, prepare, tokens, tree)
        self._trained[variant.name, seed] = train
        leg = Leg(variant, seed, recipe, prepare, tokens, tree, lm, train)
        if variant.config.role == "compare":
            search = check_search(recipe, variant.name)
            for setting in DECODE_SETTINGS[recipe.decode.inventories]:
                decode = self._decode(leg, setting, search.version)
                leg.decodes[setting] = decode
                leg.scores[setting] = self._score(leg, setting, decode)
        return leg

    def _stage(
        self,
        names: Sequence[str],
        kind: str,
        settings: dict[str, Any],
        task: Callable[[Path], None],
        **more: Any,
    ) -> Stage:
        """Return the stage that does this work, or make it.

        It takes the free name under which the same was done before, or else the first free one:
        who comes first changes when variants come and go.
        """
        inputs: dict[str, Path] = more.get("inputs", {})
        key = digest_value([kind, settings, {n: str(path) for n, path in inputs.items()}])
        if key not in self._stages:
            taken = {stage.folder for stage in self._stages.values()}
            folders = [path_below(self._out, *name.split("/")) for name in names]
            free = [folder for folder in folders if folder not in taken]
            defaults = more.get("defaults", {})
            same = [folder for folder in free if was_made_with(folder, settings, defaults)]
            folder = (same or free)[0]
            self._stages[key] = Stage(kind, folder, settings, task, **more)
        return self._stages[key]

    def _prepare(self, variant: Variant, recipe: Recipe) -> Stage:
        corpus = work.locate_corpus(recipe.corpus)
        sources = work.corpus_sources(corpus)
        return self._stage(
            ("prepare", f"prepare-{variant.name}"),
            "prepare",
            corpus.model_dump(mode="json"),
            lambda folder: work.prepare_corpus(corpus, folder),
            defaults=type(corpus).model_validate({"kind": corpus.kind}).model_dump(mode="json"),
            outputs=work.PREPARED,
            source_mark=(lambda: digest_value([digest_source(place) for place in sources]))
            if sources
            else None,
        )

    def _tokens(self, variant: Variant, recipe: Recipe, prepare: Stage) -> Stage:
        cuts = prepare.folder / work.TRAIN_CUTS
        corpus = work.locate_corpus(recipe.corpus)
        listed = corpus_inventories(corpus) if recipe.tokens.inventories else {}
        return self._stage(
            ("tokens", f"tokens-{variant.name}"),
            "tokens",
            recipe.tokens.model_dump(mode="json"),
            lambda folder: work.build_tokens(recipe.tokens, cuts, folder, listed.values()),
            defaults=TokensConfig().model_dump(mode="json"),
            outputs=(work.TOKENS,),
            after=(prepare,),
            inputs={"train cuts": cuts},
            source_mark=(lambda: inventory_mark(corpus)) if listed else None,
        )

    def _tree(self, variant: Variant, recipe: Recipe, tokens: Stage, seed: int) -> Stage | None:
        if not needs_tree(recipe.model):
            return None
        config = recipe.tree
        settings: dict[str, Any] = {"kind": config.kind, "weighting": config.weighting}
        after: tuple[Stage, ...] = (tokens,)
        inputs = {"tokens": tokens.folder / work.TOKENS}
        checkpoint, tree_seed = None, config.seed
        builder = TREES[config.kind]
        if builder.needs_vectors and config.embedding_from is None:
            raise ArborvoxError(
                f"variant {variant.name}: a tree '{config.kind}' needs tree.embedding_from, "
                "another variant or a model's folder."
            )
        if builder.drawn_by_lot:
            # Each seed draws such a tree anew: a control should be chance, not one lucky tree.
            tree_seed += seed
            settings["seed"] = tree_seed
        if builder.needs_vectors:
            checkpoint, trained = self._checkpoint(config.embedding_from, seed)
            after += (trained,) if trained else ()
            if checkpoint is not None:
                inputs["unit vectors"] = checkpoint / WEIGHTS
        by_seed = (builder.drawn_by_lot or builder.needs_vectors) and self._many_seeds
        suffix = f"-seed-{seed}" if by_seed else ""
        return self._stage(
            (f"trees/{config.kind}{suffix}", f"trees/{config.kind}-{variant.name}{suffix}"),
            "tree",
            settings,
            lambda folder: work.build_code_tree(
                config, tokens.folder / work.TOKENS, checkpoint, tree_seed, folder
            ),
            outputs=(work.TREE,),
            after=after,
            inputs=inputs,
        )

    def _lm(self, variant: Variant, recipe: Recipe, prepare: Stage, tokens: Stage) -> Stage | None:
        order = recipe.decode.transcripts_lm
        if order is None:
            return None
        cuts, units = prepare.folder / work.TRAIN_CUTS, tokens.folder / work.TOKENS
        return self._stage(
            (f"lms/order-{order}", f"lms/order-{order}-{variant.name}"),
            "lm",
            {"order": order},
            lambda folder: work.build_language_model(order, cuts, units, folder),
            outputs=(work.LM,),
            after=(prepare, tokens),
            inputs={"train cuts": cuts, "tokens": units},
        )

    def _train(
        self,
        variant: Variant,
        recipe: Recipe,
        seed: int,
        prepare: Stage,
        tokens: Stage,
        tree: Stage | None,
    ) -> Stage:
        start, trained = self._checkpoint(recipe.train.init_from, seed)
        # Read now, with the settings: the file may be edited while earlier stages are at work.
        training_recipe = variant.training_recipe(seed, start)
        cuts = {
            "train cuts": prepare.folder / work.TRAIN_CUTS,
            "dev cuts": prepare.folder / work.DEV_CUTS,
        }
        inputs = {**cuts, "tokens": tokens.folder / work.TOKENS}
        if tree is not None:
            inputs["tree"] = tree.folder / work.TREE
        if start is not None:
            inputs["first weights"] = start / WEIGHTS
        inputs |= base_model_files(recipe.model)
        noises = [
            Path(expand_place(place, f"augment.{key}"))
            for key in ("noise_folder", "reverb_folder")
            if (place := getattr(recipe.augment, key)) is not None
        ]
        settings = {name: _effective(recipe, name) for name in LEARNED_SECTIONS}
        return self._stage(
            (f"runs/{variant.name}/seed-{seed}/train",),
            "train",
            settings,
            lambda folder: work.train_model(
                work.share_states(training_recipe, self._out / STATES),
                folder,
                prepare.folder,
                inputs["tokens"],
                inputs.get("tree"),
            ),
            defaults={name: _effective(Recipe(), name) for name in LEARNED_SECTIONS},
            outputs=work.TRAINED,
            after=tuple(stage for stage in (prepare, tokens, tree, trained) if stage),
            inputs=inputs,
            free=_free_keys(recipe.train),
            outgrown=lambda folder: work.outgrew(folder, recipe.train),
            source_mark=(lambda: digest_value([digest_listing(place) for place in noises]))
            if noises
            else None,
            precious=True,
            shared=True,
        )

    def _decode(self, leg: Leg, setting: str, version: int) -> Stage:
        config = leg.recipe.decode
        corpus = work.locate_corpus(leg.recipe.corpus)
        inputs = {
            "test cuts": leg.prepare.folder / work.TEST_CUTS,
            "tokens": leg.tokens.folder / work.TOKENS,
            "weights": leg.train.folder / work.FINAL / WEIGHTS,
        }
        lm = config.lm if leg.lm is None else leg.lm.folder / work.LM
        if lm is not None:
            inputs["language model"] = lm
        if config.inventory is not None:
            inputs["inventory"] = config.inventory
        by_inventory = setting == "inventory"
        return self._stage(
            (f"runs/{leg.variant.name}/seed-{leg.seed}/decode-{setting}",),
            "decode",
            {
                **config.model_dump(mode="json", exclude=MACHINE_KEYS | {"inventories"}),
                "inventory": by_inventory,
            },
            lambda folder: decode_test_set(
                config.whole(lm=lm, transcripts_lm=None),
                setting,
                corpus,
                leg.train.folder,
                inputs["test cuts"],
                inputs["tokens"],
                self._memory,
                folder,
            ),
            defaults=DecodeConfig().model_dump(mode="json", exclude=MACHINE_KEYS | {"inventories"}),
            outputs=(HYPOTHESES, TIMING),
            after=tuple(s for s in (leg.prepare, leg.tokens, leg.lm, leg.train) if s),
            inputs=inputs,
            source_mark=(lambda: inventory_mark(corpus)) if by_inventory else None,
            version=version,
            shared=True,
        )

    def _score(self, leg: Leg, setting: str, decode: Stage) -> Stage:
        config = leg.recipe.report
        settings = {"samples": config.samples, "seed": config.seed, "format": SCORES_VERSION}
        hypotheses = decode.folder / HYPOTHESES
        return self._stage(
            (f"runs/{leg.variant.name}/seed-{leg.seed}/score-{setting}",),
            "score",
            settings,
            lambda folder: work.score_test_set(config, hypotheses, folder),
            outputs=(work.SCORES,),
            after=(decode,),
            inputs={"hypotheses": hypotheses},
        )

    def _checkpoint(self, named: str | None, seed: int) -> tuple[Path | None, Stage | None]:
        """Find the model that a key names: another variant's of the same seed, or a folder."""
        if named is None:
            return None, None
        trained = self._trained.get((named, seed))
        if trained is not None:
            return trained.folder / work.FINAL, trained
        try:
            return find_checkpoint(Path(named)), None
        except ArborvoxError as error:
            others = ", ".join(sorted({name for name, _ in self._trained}))
            raise ArborvoxError(
                f"train.init_from or tree.embedding_from: {named} is neither a variant"
                f"{f' ({others})' if others else ''} nor a model's folder: {error}"
            ) from None


def _effective(recipe: Recipe, section: str) -> dict[str, Any]:
    values: dict[str, Any] = getattr(recipe, section).model_dump(mode="json")
    return {k: v for k, v in values.items() if k not in WITHOUT_EFFECT.get(section, ())}


def _free_keys(train: TrainConfig) -> frozenset[str]:
    """Settings under which a run may go on as it was begun."""
    return frozenset(FREE_KEYS) - (LENGTH_KEYS if train.schedule == "cosine" else frozenset())
