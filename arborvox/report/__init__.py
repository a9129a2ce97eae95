"""One self-contained page (and Markdown) that tells what an experiment found."""

from collections.abc import Sequence
from pathlib import Path

from arborvox.console import say
from arborvox.files import write_text_atomic
from arborvox.report.analysis import analyse, settings_of
from arborvox.report.document import Block, Document
from arborvox.report.examples import example_blocks
from arborvox.report.experiment import load_experiment
from arborvox.report.html import render_html
from arborvox.report.markdown import render_markdown
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

HTML_NAME, MARKDOWN_NAME = "report.html", "report.md"


def make_report(folder: Path, out: Path) -> None:
    """Write report.html and report.md of an experiment's folder into `out`."""
    document = build_document(folder, out / "tree.svg")
    page, text = out / HTML_NAME, out / MARKDOWN_NAME
    write_text_atomic(text, render_markdown(document, out))
    write_text_atomic(page, render_html(document))
    say(f"wrote {text}")
    say(f"wrote {page}")


def build_document(folder: Path, tree_picture: Path) -> Document:
    """Compute and arrange all that the report says; the tree is drawn on the way."""
    experiment = load_experiment(folder)
    settings = settings_of(experiment)
    analyses = [analyse(experiment, folder, setting) for setting in settings]
    tested = list(analyses[0].metrics[0].num_utterances)
    blocks: list[Block] = finding_blocks(analyses)
    for analysis in analyses:
        blocks += result_blocks(analysis, alone=len(analyses) == 1)
    blocks += model_blocks(experiment)
    blocks += example_blocks(analyses[0], experiment.num_examples)
    blocks += confusion_blocks(analyses[0])
    blocks += curve_blocks(experiment, folder)
    blocks += tree_blocks(experiment, folder, tree_picture)
    blocks += speed_blocks(experiment, folder, settings)
    blocks += data_blocks(experiment, folder, tested)
    blocks += repeat_blocks(experiment)
    blocks += number_blocks(experiment, folder, settings)
    seeds = f"seed{'s' * (len(experiment.seeds) > 1)} {', '.join(map(str, experiment.seeds))}"
    models, languages = _count(experiment.models, "model"), _count(tested, "language")
    subtitle = f"{models}, {seeds}, tested on {languages}: {', '.join(tested)}."
    return Document(experiment.name, subtitle, tuple(blocks))


def _count(things: Sequence[object], name: str) -> str:
    return f"{len(things)} {name}{'s' * (len(things) > 1)}"
