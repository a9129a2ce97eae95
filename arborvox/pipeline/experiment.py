"""`arborvox run`: from a recipe to a report, doing only what has not been done."""

import shlex
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from safetensors import safe_open

from arborvox.config import show_recipe
from arborvox.console import say
from arborvox.corpora.manifests import REPEATED_NAME, STATS_NAME
from arborvox.errors import ArborvoxError
from arborvox.files import read_json, write_text_atomic
from arborvox.model.checkpoint import WEIGHTS
from arborvox.pipeline import work
from arborvox.pipeline.board import (
    DONE,
    FAILED,
    KEPT,
    STOPPED,
    Board,
    show_board,
    tell_reason,
)
from arborvox.pipeline.decoding import HYPOTHESES, TIMING
from arborvox.pipeline.environment import describe_environment
from arborvox.pipeline.stages import RunInterruptedError, Stage, look_at, run_stage
from arborvox.pipeline.variants import Variant, read_variants
from arborvox.pipeline.work_plan import Leg, Plan, make_plan
from arborvox.report.experiment import (
    EXPERIMENT_NAME,
    Experiment,
    ModelEntry,
    RunEntry,
    load_experiment,
)
from arborvox.report.experiment_report import HTML_NAME, MARKDOWN_NAME, NUMBERS_NAME, make_report
from arborvox.team import this_team
from arborvox.training.state import RunFolder, load_progress

RECIPE_NAME = "recipe.yaml"
LOCK_NAME = ".lock"


def run_experiment(
    recipe: Path,
    out: Path,
    seeds: Sequence[int] = (),
    overrides: Sequence[str] = (),
    chosen: Sequence[str] = (),
) -> Path:
    """Do what an experiment still lacks; return the report's page.

    Without seeds there is one training of each variant, with the recipe's own seed; without chosen
    variants there are all.
    """
    if len(set(seeds)) < len(seeds):
        raise ArborvoxError("--seeds: give each seed once, such as 0,1,2.")
    variants = read_variants(recipe, overrides)
    base = variants[0].source.load()
    seeds = seeds or (base.train.seed,)
    command = _command(recipe, out, seeds, overrides, chosen)
    out = out.absolute()
    plan = make_plan(variants, seeds, out, chosen)
    _check_sources(plan)
    team = this_team()
    team.wait()  # all have planned before anything changes
    with team.hold(out / LOCK_NAME, f"Another `arborvox run` is at work in {out}."):
        whole = show_recipe(base)
        if team.first:
            write_text_atomic(out / RECIPE_NAME, whole)
        board = Board(plan)
        worked = False
        with show_board(board):
            for stage in plan.prepares:
                worked |= _do(stage, board, out)
            if team.first:
                _check_test_sets(plan)
            for stage in plan.stages:
                if stage.kind != "prepare":
                    worked |= _do(stage, board, out)
        if team.first:
            told = _describe(plan, variants, command, whole)
            if worked or not _is_told(told, out):
                told.save(out)
        team.wait()
        return _report(plan)


def _check_sources(plan: Plan) -> None:
    """Refuse a corpus that is not there before anything is written."""
    for leg in plan.legs:
        for source in work.corpus_sources(work.locate_corpus(leg.recipe.corpus)):
            if not source.exists():
                raise ArborvoxError(
                    f"variant {leg.variant.name}: there is no file or folder {source}; see the "
                    "recipe's corpus section."
                )


def _check_test_sets(plan: Plan) -> None:
    """Refuse, before anything is trained, models that could not be compared on the test data."""
    folders = dict.fromkeys(leg.prepare.folder for leg in plan.legs if leg.decodes)
    first, *others = folders
    asked = work.read_test_set(first / work.TEST_CUTS)
    if not asked:
        raise ArborvoxError(
            f"{first / work.TEST_CUTS} holds no utterances, so there is nothing to compare models "
            "on; see the recipe's corpus section."
        )
    for folder in others:
        if work.read_test_set(folder / work.TEST_CUTS) != asked:
            raise ArborvoxError(
                f"{folder / work.TEST_CUTS} holds other utterances than {first / work.TEST_CUTS}: "
                "models can only be compared on the same test set."
            )


def _is_told(experiment: Experiment, out: Path) -> bool:
    """Whether the folder tells of this experiment already, on whatever machine it was made."""
    try:
        known = load_experiment(out)
    except ArborvoxError:  # there is none, or one of another version
        return False
    return known == replace(experiment, environment=known.environment, command=known.command)


def _do(stage: Stage, board: Board, out: Path) -> bool:
    """Do one stage unless it is done; say whether there was anything to do."""
    standing = look_at(stage)
    if standing.fresh:
        board.end(stage, KEPT)
        return False
    board.begin(stage, tell_reason(standing.changed, standing.begun))
    try:
        run_stage(stage, standing, out)
    except BaseException as error:
        asked = isinstance(error, RunInterruptedError | KeyboardInterrupt)
        board.end(stage, STOPPED if asked else FAILED)
        raise
    board.end(stage, DONE)
    return True


def _report(plan: Plan) -> Path:
    """Write the report, unless it is there and tells of these very results."""
    folder = plan.out / "report"
    told = read_json(plan.out / EXPERIMENT_NAME)
    inputs = {}
    repeated = (plan.out / told["stats"]).with_name(REPEATED_NAME)
    if repeated.is_file():
        inputs[repeated.relative_to(plan.out).as_posix()] = repeated
    for leg in plan.legs:
        for stage in (*leg.decodes.values(), *leg.scores.values()):
            for name in stage.outputs:
                path = stage.folder / name
                inputs[path.relative_to(plan.out).as_posix()] = path
    stage = Stage(
        kind="report",
        folder=folder,
        settings={"experiment": told},
        work=lambda folder: make_report(plan.out, folder),
        outputs=(HTML_NAME, MARKDOWN_NAME, NUMBERS_NAME),
        after=tuple(plan.stages),
        inputs=inputs,
    )
    standing = look_at(stage)
    if standing.fresh:
        say(f"nothing to do: {folder / HTML_NAME} is up to date")
    else:
        run_stage(stage, standing, plan.out)
    return folder / HTML_NAME


def _describe(plan: Plan, variants: Sequence[Variant], command: str, recipe: str) -> Experiment:
    """Collect what the report needs to know of the plan."""
    scored = {leg.variant.name for leg in plan.legs if leg.decodes}
    compared = [variant for variant in variants if variant.name in scored]
    models = []
    for variant in compared:
        legs = [leg for leg in plan.legs if leg.variant is variant]
        models.append(
            ModelEntry(
                name=variant.name,
                label=variant.label,
                against=variant.config.against if variant.config.against in scored else None,
                changes=variant.config.set,
                num_parameters=_count_parameters(legs[0]),
                runs=tuple(_run_entry(leg, plan.out) for leg in legs),
            )
        )
    first = next(leg for leg in plan.legs if leg.variant is compared[0])
    drawn = next((leg for leg in plan.legs if leg.tree and leg.variant in compared), first)
    config = first.recipe.report
    return Experiment(
        name=first.recipe.name,
        command=command,
        seeds=tuple(dict.fromkeys(leg.seed for leg in plan.legs)),
        samples=config.samples,
        bootstrap_seed=config.seed,
        num_examples=config.examples,
        recipe=recipe,
        environment=describe_environment(),
        stats=_inside(first.prepare.folder / STATS_NAME, plan.out),
        tokens=_inside(drawn.tokens.folder / work.TOKENS, plan.out),
        tree=_inside(drawn.tree.folder / work.TREE, plan.out) if drawn.tree else None,
        models=tuple(models),
    )


def _run_entry(leg: Leg, out: Path) -> RunEntry:
    return RunEntry(
        seed=leg.seed,
        run=_inside(leg.train.folder, out),
        train_s=_training_time_s(leg.train.folder),
        hypotheses={
            name: _inside(stage.folder / HYPOTHESES, out) for name, stage in leg.decodes.items()
        },
        scores={
            name: _inside(stage.folder / work.SCORES, out) for name, stage in leg.scores.items()
        },
        speed={name: _inside(stage.folder / TIMING, out) for name, stage in leg.decodes.items()},
    )


def _inside(path: Path, out: Path) -> str:
    return path.relative_to(out).as_posix()


def _training_time_s(run: Path) -> float | None:
    """Return the time spent in steps, all attempts together, as the trainer kept it."""
    state = RunFolder(run).newest_state()
    return load_progress(state).elapsed_s if state else None


def _count_parameters(leg: Leg) -> int:
    """Count the numbers that were learned, from the header of the weights."""
    total = 0
    with safe_open(leg.train.folder / work.FINAL / WEIGHTS, framework="np") as file:
        for name in file.keys():  # noqa: SIM118 (no mapping)
            if "cmvn_" not in name:
                size = 1
                for length in file.get_slice(name).get_shape():
                    size *= length
                total += size
    return total


def _command(
    recipe: Path, out: Path, seeds: Sequence[int], overrides: Sequence[str], chosen: Sequence[str]
) -> str:
    words = ["arborvox", "run", str(recipe), "--out", str(out)]
    words += ["--seeds", ",".join(map(str, seeds))]
    if chosen:
        words += ["--variants", ",".join(chosen)]
    for override in overrides:
        words += ["--set", override]
    return shlex.join(words)
