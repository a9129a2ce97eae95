"""Utterances worth reading: where a model gained, where it lost, and typical ones."""

from collections.abc import Sequence
from dataclasses import dataclass

from arborvox.report.analysis import SettingAnalysis
from arborvox.report.document import Block, Example, Heading, Hearing, Paragraph
from arborvox.report.verdict import points
from arborvox.score import Metric, Transcription, error_counts, split_units

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


def example_blocks(analysis: SettingAnalysis, count: int) -> list[Block]:
    """Show utterances with alignments, chosen by rule so that nobody picks cherries."""
    metric = analysis.metrics[0].metric
    labels = [model.label for model in analysis.metrics[0].models][:MOST_MODELS_SHOWN]
    candidates = _candidates(analysis, metric)
    if not candidates or not count:
        return []
    chosen = _choose(candidates, count)
    blocks: list[Block] = [Heading("What the models heard"), Paragraph(_rule(labels))]
    left_out = len(analysis.metrics[0].models) - len(labels)
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


def _candidates(analysis: SettingAnalysis, metric: Metric) -> list[_Candidate]:
    files = [seeds[0] for seeds in analysis.files[:MOST_MODELS_SHOWN]]
    by_id = [{entry.id: entry for entry in file.transcriptions} for file in files]
    found = []
    for name in sorted(by_id[0]):
        heard = tuple(entries[name] for entries in by_id)
        units = split_units(heard[0].reference, metric)
        if len(units) < 2:
            continue  # one unit is right or wrong; there is nothing to see
        rates = tuple(error_counts(units, split_units(e.text, metric)).rate for e in heard)
        found.append(_Candidate(heard, rates))
    return found


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
