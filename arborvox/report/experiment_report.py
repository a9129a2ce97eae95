"""One self-contained page, Markdown and JSON that tell what an experiment found."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from arborvox.console import say
from arborvox.files import write_text_atomic
from arborvox.report.document import Block, Document
from arborvox.report.examples import example_blocks
from arborvox.report.experiment import Experiment, load_experiment
from arborvox.report.html import render_html
from arborvox.report.markdown import render_markdown
from arborvox.report.new_sentences import new_sentence_blocks
from arborvox.report.results import named_tables, results_as_json, write_results
from arborvox.report.sections import (
    confusion_blocks,
    curve_blocks,
    data_blocks,
    finding_blocks,
    model_blocks,
    number_blocks,
    repeat_blocks,
    result_blocks,
    speed_blocks,
    tree_blocks,
)
from arborvox.report.unit_classes import unit_class_blocks
from arborvox.score import Scores
from arborvox.score.analysis import Analysis, analysis_as_json, analyze

HTML_NAME, MARKDOWN_NAME, NUMBERS_NAME = "report.html", "report.md", "report.json"


def make_report(folder: Path, out: Path) -> None:
    """Write report.html, report.md and report.json of an experiment's folder into `out`."""
    experiment = load_experiment(folder)
    scores = {way: experiment.read_scores(folder, way) for way in experiment.settings}
    analyses = {
        way: analyze(
            of_way,
            experiment.pairs,
            seed=experiment.bootstrap_seed,
            num_samples=experiment.samples,
        )
        for way, of_way in scores.items()
    }
    document = _build_document(experiment, folder, scores, analyses, out / "tree.svg")
    numbers = {
        **results_as_json(experiment.command, experiment.environment, named_tables(document)),
        "analyses": {way: analysis_as_json(analysis) for way, analysis in analyses.items()},
    }
    write_text_atomic(out / MARKDOWN_NAME, render_markdown(document, out))
    write_text_atomic(out / HTML_NAME, render_html(document))
    for name in (MARKDOWN_NAME, HTML_NAME):
        say(f"wrote {out / name}")
    write_results(out / NUMBERS_NAME, numbers)


def _build_document(
    experiment: Experiment,
    folder: Path,
    scores: Mapping[str, Mapping[str, Sequence[Scores]]],
    analyses: Mapping[str, Analysis],
    tree_picture: Path,
) -> Document:
    """Arrange all that the report says; the tree is drawn on the way."""
    first, settings = next(iter(analyses)), list(analyses)
    tested = list(analyses[first].metrics[0].num_utterances)
    blocks: list[Block] = finding_blocks(analyses)
    for setting, analysis in analyses.items():
        alone = len(analyses) == 1
        blocks += result_blocks(analysis, setting, alone=alone)
        blocks += new_sentence_blocks(experiment, folder, setting, scores[setting], alone=alone)
    blocks += unit_class_blocks(experiment, folder, settings)
    blocks += model_blocks(experiment)
    blocks += example_blocks(experiment, folder, first, scores[first])
    blocks += confusion_blocks(analyses[first])
    blocks += curve_blocks(experiment, folder)
    blocks += tree_blocks(experiment, folder, tree_picture)
    blocks += speed_blocks(experiment, folder, settings)
    blocks += data_blocks(experiment, folder, tested)
    blocks += repeat_blocks(experiment)
    blocks += number_blocks(experiment, scores)
    seeds = f"seed{'s' * (len(experiment.seeds) > 1)} {', '.join(map(str, experiment.seeds))}"
    models, languages = _count(experiment.models, "model"), _count(tested, "language")
    subtitle = f"{models}, {seeds}, tested on {languages}: {', '.join(tested)}."
    return Document(experiment.name, subtitle, tuple(blocks))


def _count(things: Sequence[object], name: str) -> str:
    return f"{len(things)} {name}{'s' * (len(things) > 1)}"
