"""Test utterances whose sentences training has not heard, by themselves.

A decoder and a language model know by heart what stands in the training set: where a corpus's own
test set repeats it, a rate over all flatters them.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

from arborvox.corpora.manifests import REPEATED_NAME
from arborvox.files import clean_cell
from arborvox.report.document import Block, Heading, Paragraph
from arborvox.report.experiment import SETTINGS, Experiment
from arborvox.report.sections import overall_differences, rate_table
from arborvox.score import Scores, Selection
from arborvox.score.analysis import analyze
from arborvox.score.rates import PartScores, score_part


def new_sentence_blocks(
    experiment: Experiment,
    folder: Path,
    setting: str,
    scores: Mapping[str, Sequence[Scores]],
    *,
    alone: bool,
) -> list[Block]:
    """Lay out the rates of new sentences, if the test set has repeated ones too."""
    table = (folder / experiment.stats).with_name(REPEATED_NAME)
    if not table.is_file():  # corpora whose splits never repeat a sentence have none
        return []
    repeated = Selection.read(None, table).unwanted
    tested = [id_ for ids in next(iter(scores.values()))[0].edits.ids.values() for id_ in ids]
    num_new = sum(clean_cell(id_) not in repeated for id_ in tested)
    if num_new == len(tested):
        return []
    told = (
        f"{len(tested) - num_new:,} of {len(tested):,} test utterances repeat a sentence of the "
        f"training or development set, which decoders and language models know by heart"
    )
    title = "Sentences that training lacks" + ("" if alone else f": {SETTINGS[setting]}")
    if not num_new:
        return [Heading(title), Paragraph(f"{told}; nothing is left to score by itself.")]
    parts = {label: [_new(found, repeated) for found in of] for label, of in scores.items()}
    analysis = analyze(
        parts, experiment.pairs, seed=experiment.bootstrap_seed, num_samples=experiment.samples
    )
    blocks: list[Block] = [Heading(title), Paragraph(f"{told}. The {num_new:,} others:")]
    for metric in analysis.metrics:
        name = f"{setting}-{metric.metric.value}-new"
        blocks.append(rate_table(metric, name))
        if metric.pairings:
            blocks.append(overall_differences(metric, f"{name}-differences"))
    return blocks


def _new(scores: Scores, repeated: frozenset[str]) -> PartScores:
    part = score_part(scores, lambda id_: clean_cell(id_) not in repeated)
    assert part is not None  # all models were asked the same
    return part
