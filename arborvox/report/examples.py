"""Utterances worth reading: where a model gained, where it lost, and typical ones."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from arborvox.errors import ArborvoxError
from arborvox.report.document import Block, Example, Heading, Hearing, Paragraph
from arborvox.report.experiment import Experiment
from arborvox.report.wording import points
from arborvox.score import (
    EditCounts,
    ErrorCounts,
    Metric,
    Scores,
    Transcription,
    read_hypotheses,
)

MOST_MODELS_SHOWN = 4


@dataclass(frozen=True)
class _Candidate:
    """An utterance, what each model heard with its first seed, and the error rates."""

    heard: tuple[Transcription, ...]
    rates: tuple[float, ...]

    @property
    def gain(self) -> float:
        """How much better the second model is than the first; alone, how bad the first is."""
        return self.rates[0] - self.rates[1] if len(self.rates) > 1 else self.rates[0]


def example_blocks(
    experiment: Experiment, folder: Path, setting: str, scores: Mapping[str, Sequence[Scores]]
) -> list[Block]:
    """Show utterances with alignments, chosen by rule so that nobody picks cherries."""
    count = experiment.num_examples
    labels = list(scores)[:MOST_MODELS_SHOWN]
    edits = [scores[label][0].edits for label in labels]
    metric = next(iter(edits[0].tables))
    paths = [folder / model.runs[0].hypotheses[setting] for model in experiment.models]
    candidates = _candidates(paths[: len(labels)], edits, metric)
    if not candidates or not count:
        return []
    chosen = _choose(candidates, count)
    blocks: list[Block] = [Heading("What the models heard"), Paragraph(_rule(labels))]
    left_out = len(scores) - len(labels)
    if left_out:
        blocks.append(Paragraph(f"The first {len(labels)} models; {left_out} more were scored."))
    for reason, candidate in chosen:
        said = candidate.heard[0]
        hearings = tuple(
            Hearing(label, entry.text, f"{metric.label} {points(rate)} %")
            for label, entry, rate in zip(labels, candidate.heard, candidate.rates, strict=True)
        )
        title = f"{said.language} · {said.id} · {reason}"
        blocks.append(Example(title, said.reference, metric, hearings))
    return blocks


def _rule(labels: Sequence[str]) -> str:
    told = "Said above, heard below, errors shaded; seed by seed they differ, these are the first."
    if len(labels) < 2:
        return f"{told} Best, typical and worst utterances."
    return (
        f"{told} A third is where {labels[1]} gains most over {labels[0]}, a third where it loses "
        "most, the rest are of middling difficulty."
    )


def _candidates(
    paths: Sequence[Path], edits: Sequence[EditCounts], metric: Metric
) -> list[_Candidate]:
    """Put what was heard beside the counts that scoring has kept."""
    heard = [{e.id: e for e in read_hypotheses(path).transcriptions} for path in paths]
    found = {}
    for language, names in edits[0].ids.items():
        for row, name in enumerate(names):
            counts = [ErrorCounts.total(of.tables[metric][language][row : row + 1]) for of in edits]
            if counts[0].num_reference < 2:
                continue  # one unit is right or wrong; there is nothing to see
            for of_model, path in zip(heard, paths, strict=True):
                if name not in of_model:
                    raise ArborvoxError(
                        f"{path} holds other utterances than were scored; run the recipe again."
                    )
            entries = tuple(of_model[name] for of_model in heard)
            found[name] = _Candidate(entries, tuple(of.rate for of in counts))
    return [found[name] for name in sorted(found)]


def _choose(candidates: Sequence[_Candidate], count: int) -> list[tuple[str, _Candidate]]:
    """Take from the ends of the ranking and from its middle, no utterance twice."""
    several = len(candidates[0].rates) > 1
    by_gain = sorted(candidates, key=lambda c: c.gain)
    by_rate = sorted(candidates, key=lambda c: sum(c.rates))
    middle = len(by_rate) // 2
    around = sorted(range(len(by_rate)), key=lambda place: (abs(place - middle), place))
    lists = {
        "gained" if several else "worst": [
            c for c in reversed(by_gain) if not several or c.gain > 0
        ],
        "lost" if several else "best": [c for c in by_gain if not several or c.gain < 0],
        "typical": [by_rate[place] for place in around],
    }
    chosen: list[tuple[str, _Candidate]] = []
    share = -(-count // len(lists))
    for reason, ranked in lists.items():
        taken = {id(candidate) for _, candidate in chosen}
        fresh = [candidate for candidate in ranked if id(candidate) not in taken]
        # What the others leave, typical ones fill.
        room = count - len(chosen) if reason == "typical" else min(share, count - len(chosen))
        chosen += [(reason, candidate) for candidate in fresh[:room]]
    return chosen
