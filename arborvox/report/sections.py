"""The parts of a report, each built from an experiment's files."""

from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass
from pathlib import Path

import numpy as np

from arborvox.corpora.manifests import SplitStats
from arborvox.decode.timing import Timing, read_timing
from arborvox.report.document import (
    Bar,
    BarChart,
    BarGroup,
    Block,
    Cell,
    Charts,
    Code,
    Details,
    Heading,
    Line,
    LineChart,
    Paragraph,
    Picture,
    Table,
)
from arborvox.report.experiment import SETTINGS, Experiment
from arborvox.report.verdict import verdicts
from arborvox.report.wording import best_places, p_text, percent, percent_interval, points
from arborvox.score import Difference, ErrorCounts, Estimate, Metric, Scores, SetSize
from arborvox.score.analysis import Analysis, MetricAnalysis, ModelScores, Pairing
from arborvox.tokens import Tokenizer
from arborvox.tokens.trees import MAX_LANGUAGE_COLORS, color_units
from arborvox.training.curves import smooth
from arborvox.training.records import read_records
from arborvox.tree import load_tree
from arborvox.tree.drawing import display_name, draw_tree
from arborvox.tree.measures import entropy_bits, expected_code_length
from arborvox.typed_json import read_form

# Data tables with more languages than this show the tested ones and the total.
MOST_LANGUAGES_SHOWN = 20
# More columns than these fit neither on a page of paper nor beside each other on a screen.
MOST_LANGUAGES_ACROSS = 10
HARDLY_ANYTHING_HEARD = 0.9  # pooled error rate


@dataclass(frozen=True)
class _Splits:
    train: SplitStats
    dev: SplitStats
    test: SplitStats


@dataclass(frozen=True)
class _CorpusNumbers:
    """What the report tells of a corpus's stats.json."""

    kind: str
    total: _Splits
    languages: dict[str, _Splits]
    skipped: dict[str, int]


def finding_blocks(analyses: Mapping[str, Analysis]) -> list[Block]:
    """Say first what came out."""
    blocks: list[Block] = []
    for setting, analysis in analyses.items():
        main = analysis.metrics[0]
        if len(analyses) > 1:
            blocks.append(Paragraph(f"Where {SETTINGS[setting]}:"))
        lost = [m for m in main.models if m.scores.pooled.rate.value >= HARDLY_ANYTHING_HEARD]
        if lost:
            names = ", ".join(f"{m.label} ({points(m.scores.pooled.rate.value)})" for m in lost)
            told = (
                f"**Hardly anything is recognized** by {names}: near 100 % the {main.metric.label} "
                "tells how much a model writes rather than what it hears, and a difference "
                "between such models means little."
            )
            blocks.append(Paragraph(told, emphasis=True))
        findings = verdicts(main.pairings, main.metric.label)
        blocks += [Paragraph(finding, emphasis=True) for finding in findings]
        if len(main.models) == 1:
            model = main.models[0]
            rate = model.scores.pooled.rate
            told = f"{main.metric.label} {points(rate.value)} ({_interval(rate)}), pooled."
            blocks.append(Paragraph(f"**{model.label}**: {told}", emphasis=True))
    return blocks


def result_blocks(analysis: Analysis, setting: str, *, alone: bool) -> list[Block]:
    """Lay out the paper's table, the bars and the paired comparisons of one way of decoding."""
    title = "Error rates" if alone else f"Error rates: {SETTINGS[setting]}"
    blocks: list[Block] = [Heading(title)]
    for metric in analysis.metrics:
        blocks.append(rate_table(metric, f"{setting}-{metric.metric.value}"))
    main, *others = analysis.metrics
    blocks.append(_bars(main))
    for pairing in main.pairings:
        blocks.append(_difference_table(main, pairing, setting))
    for metric in others:
        if metric.pairings:
            name = f"{setting}-{metric.metric.value}-differences"
            blocks.append(overall_differences(metric, name))
    return blocks


def rate_table(analysis: MetricAnalysis, name: str) -> Table:
    """Lay out models by languages as in the paper, or across where that would be too wide."""
    languages = list(analysis.num_utterances)
    titles = (*languages, "Overall (mean)", "Overall (pooled)")
    columns = [[m.scores.languages[name].rate for m in analysis.models] for name in languages]
    columns += [[m.scores.macro for m in analysis.models]]
    columns += [[m.scores.pooled.rate for m in analysis.models]]
    cells = [_rate_cells(column) for column in columns]
    for place, model in enumerate(analysis.models):
        cells[-2][place] = _with_spread(cells[-2][place], model.macro_spread)
        cells[-1][place] = _with_spread(cells[-1][place], model.pooled_spread)
    labels = tuple(model.label for model in analysis.models)
    if len(languages) > MOST_LANGUAGES_ACROSS:
        header = ("Language", *labels)
        rows = [(Cell(title), *column) for title, column in zip(titles, cells, strict=True)]
    else:
        header = ("Model", *titles)
        rows = [(Cell(label), *(column[n] for column in cells)) for n, label in enumerate(labels)]
    return Table(
        header=header,
        rows=tuple(rows),
        caption=f"{analysis.metric.label} in %, 95 % intervals below; {_seeds_told(analysis)}.",
        name=name,
    )


def _rate_cells(rates: Sequence[Estimate]) -> list[Cell]:
    """Write the rates of all models, the lowest marked."""
    lowest = best_places([rate.value for rate in rates])
    return [
        Cell(points(rate.value), _interval(rate), place in lowest)
        for place, rate in enumerate(rates)
    ]


def _seeds_told(analysis: MetricAnalysis) -> str:
    number = len(analysis.models[0].pooled_of_seeds)
    return "one seed" if number == 1 else f"means over {number} seeds, ± their standard deviation"


def _with_spread(cell: Cell, spread: float | None) -> Cell:
    if spread is None:
        return cell
    return Cell(f"{cell.text} ± {100 * spread:.1f}", cell.note, cell.best)


def _bars(analysis: MetricAnalysis) -> BarChart:
    def bar(model: ModelScores, rate: Estimate) -> Bar:
        return Bar(model.label, 100 * rate.value, 100 * rate.low, 100 * rate.high)

    groups = [
        BarGroup(name, tuple(bar(m, m.scores.languages[name].rate) for m in analysis.models))
        for name in analysis.num_utterances
    ]
    groups.append(BarGroup("mean", tuple(bar(m, m.scores.macro) for m in analysis.models)))
    groups.append(BarGroup("pooled", tuple(bar(m, m.scores.pooled.rate) for m in analysis.models)))
    caption = f"{analysis.metric.label} in % by language, with 95 % intervals: shorter is better."
    return BarChart(caption, tuple(groups))


def _difference_table(analysis: MetricAnalysis, pairing: Pairing, setting: str) -> Table:
    first, second, differences = pairing.first, pairing.second, pairing.differences
    named = [*differences.languages.items(), ("mean", differences.macro)]
    named.append(("pooled", differences.pooled))
    rows = tuple(
        (Cell(name), *_difference_cells(difference), Cell(_utterances(analysis, name)))
        for name, difference in named
    )
    return Table(
        header=("", first.label, second.label, "Difference", "95 % interval", "p", "Utterances"),
        rows=rows,
        caption=(
            f"{second.label} against {first.label}: {analysis.metric.label} in %, paired bootstrap "
            "over the same utterances; differences with p < 0.05, each taken by itself, in bold."
        ),
        name=f"{setting}-{analysis.metric.value}-{second.label} against {first.label}",
    )


def overall_differences(analysis: MetricAnalysis, name: str) -> Table:
    """Compare the models by a metric, all languages together."""
    rows = [
        (Cell(f"{pairing.second.label} − {pairing.first.label}, {kind}"), *_difference_cells(found))
        for pairing in analysis.pairings
        for kind, found in (
            ("mean", pairing.differences.macro),
            ("pooled", pairing.differences.pooled),
        )
    ]
    return Table(
        header=("", "Against", "Model", "Difference", "95 % interval", "p"),
        rows=tuple(rows),
        caption=(
            f"{analysis.metric.label} in %, paired bootstrap over the same utterances; differences "
            "with p < 0.05, each taken by itself, in bold."
        ),
        name=name,
    )


def _utterances(analysis: MetricAnalysis, name: str) -> str:
    return str(analysis.num_utterances.get(name, sum(analysis.num_utterances.values())))


def _difference_cells(difference: Difference) -> tuple[Cell, ...]:
    estimate = difference.estimate
    low, high = points(estimate.low, signed=True), points(estimate.high, signed=True)
    return (
        Cell(points(difference.first)),
        Cell(points(difference.second)),
        Cell(points(estimate.value, signed=True), strong=difference.is_significant),
        Cell(f"{low} … {high}"),
        Cell(p_text(difference.p_value).removeprefix("= ")),
    )


def confusion_blocks(analysis: Analysis) -> list[Block]:
    """List which units are taken for which."""
    if not analysis.confusions:
        return []
    labels = tuple(model.label for model in analysis.metrics[0].models)
    rows = tuple(
        (
            Cell(display_name(confusion.reference)),
            Cell(display_name(confusion.hypothesis)),
            *(Cell(str(n)) for n in confusion.counts),
        )
        for confusion in analysis.confusions
    )
    caption = "The most frequent confusions, counted over all seeds."
    return [Table(("Said", "Heard", *labels), rows, caption, num_labels=2, name="confusions")]


def curve_blocks(experiment: Experiment, folder: Path) -> list[Block]:
    """Draw how training went, a line for each seed."""
    losses, errors, pictures = [], [], []
    for model in experiment.models:
        for run in model.runs:
            records = read_records(folder / run.run / "metrics.jsonl")
            train = [r for r in records if r["kind"] == "train" and r.get("loss") is not None]
            smoothed = smooth(np.array([r["loss"] for r in train]))
            steps = [r["step"] for r in train]
            losses.append(Line(model.label, tuple(zip(steps, smoothed.tolist(), strict=True))))
            dev = [r for r in records if r["kind"] == "dev" and r.get("error_rate") is not None]
            errors.append(Line(model.label, tuple((r["step"], 100 * r["error_rate"]) for r in dev)))
            picture = folder / run.run / "curves.png"
            if picture.is_file():
                pictures.append(Picture(picture, f"{model.label}, seed {run.seed}"))
    charts = [LineChart("Training loss per token", "step", tuple(losses))]
    if any(line.points for line in errors):
        charts.insert(0, LineChart("Development error rate, %", "step", tuple(errors)))
    caption = "A line for each seed; the development error rate is by greedy CTC decoding."
    return [Heading("Learning curves"), Charts(tuple(charts), caption, tuple(pictures))]


def tree_blocks(experiment: Experiment, folder: Path, picture: Path) -> list[Block]:
    """Draw the tree and say how good a code it is."""
    if experiment.tree is None:
        return []
    tokenizer = Tokenizer.load(folder / experiment.tokens)
    tree = load_tree(folder / experiment.tree, tokenizer.units)
    many = len(tokenizer.languages) > MAX_LANGUAGE_COLORS
    draw_tree(tree, picture, color_units(tokenizer, "sharing" if many else "language"))
    told = (
        f"The {tree.kind} tree has {tree.num_leaves} units. A unit takes "
        f"{expected_code_length(tree):.2f} decisions on average and at most {tree.depth}; no code "
        f"can do with fewer than {entropy_bits(tree.probabilities):.2f} on average."
    )
    caption = "The root is in the middle, each ring is a decision, wide branches carry much mass."
    return [Heading("The tree"), Paragraph(told), Picture(picture, caption)]


def speed_blocks(experiment: Experiment, folder: Path, settings: Sequence[str]) -> list[Block]:
    """Tell how long decoding took for a second of audio, and where the time went."""
    blocks: list[Block] = [Heading("Speed of decoding")]
    for setting in settings:
        timings = [
            [read_timing(folder / run.speed[setting]) for run in model.runs]
            for model in experiment.models
        ]
        stages = list(timings[0][0].rtf)
        means = [
            [_mean([t.rtf.get(stage, np.nan) for t in of]) for stage in stages] for of in timings
        ]
        rows = tuple(
            (Cell(model.label), *(Cell(f"{value:.4f}") for value in row))
            for model, row in zip(experiment.models, means, strict=True)
        )
        ways: dict[str, str] = {}  # and the first model that went it
        for model, of in zip(experiment.models, timings, strict=True):
            for timing in of:
                ways.setdefault(_way_of_decoding(timing), model.label)
        told = "; ".join(f"{way} ({label})" for way, label in ways.items())
        caption = (
            f"Seconds of work for a second of audio (RTF), {SETTINGS[setting]}: "
            f"{next(iter(ways)) if len(ways) == 1 else told}, "
            f"{timings[0][0].audio_s / 60:.1f} min of audio in all."
        )
        blocks.append(Table(("Model", *stages), rows, caption, name=f"{setting}-speed"))
    return blocks


def _way_of_decoding(timing: Timing) -> str:
    beam = "" if timing.mode.endswith("greedy") else f"beam {timing.beam}, "
    return (
        f"mode `{timing.mode}`, {beam}{timing.precision}, {timing.threads} thread(s), "
        f"{timing.batch_s:g} s of audio decoded together"
    )


def data_blocks(experiment: Experiment, folder: Path, tested: Sequence[str]) -> list[Block]:
    """Count what was heard in training and in the test, and what was left out."""
    remedy = "prepare the corpus again"
    stats = read_form(folder / experiment.stats, _CorpusNumbers, remedy)
    by_language = stats.languages
    shown = list(by_language)
    note = ""
    if len(shown) > MOST_LANGUAGES_SHOWN:
        shown = [name for name in shown if name in tested]
        note = f"; of {len(by_language)} languages the tested ones are shown"
    rows = [(Cell(name), *_split_cells(by_language[name])) for name in shown]
    rows.append((Cell("all"), *_split_cells(stats.total)))
    header = ["Language"]
    for split in ("train", "dev", "test"):
        header += [f"{split} utterances", "hours"]
    blocks: list[Block] = [
        Heading("Data"),
        Table(tuple(header), tuple(rows), f"Corpus `{stats.kind}`{note}.", name="data"),
    ]
    skipped = stats.skipped
    if skipped:
        total = sum(skipped.values())
        reasons = ", ".join(f"{count:,} {reason}" for reason, count in skipped.items())
        blocks.append(Paragraph(f"Left out: {total:,} ({reasons})."))
    else:
        blocks.append(Paragraph("Nothing was left out."))
    return blocks


def _split_cells(splits: _Splits) -> list[Cell]:
    cells = []
    for split in (splits.train, splits.dev, splits.test):
        cells += [Cell(f"{split.utterances:,}"), Cell(f"{split.hours:.2f}")]
    return cells


def model_blocks(experiment: Experiment) -> list[Block]:
    """Say in what the models differ, how big they are and how long they trained."""
    rows = []
    for model in experiment.models:
        changes = ", ".join(f"`{key}: {value}`" for key, value in model.changes.items()) or "–"
        size = f"{model.num_parameters / 1e6:.2f} M" if model.num_parameters else "–"
        times = [run.train_s for run in model.runs if run.train_s is not None]
        minutes = " ".join(f"{time / 60:.1f}" for time in times) or "–"
        rows.append((Cell(model.label), Cell(changes), Cell(size), Cell(minutes)))
    header = ("Model", "Set for it alone", "Parameters", "Training, minutes a seed")
    return [Heading("Models"), Table(header, tuple(rows), num_labels=2, name="models")]


def repeat_blocks(experiment: Experiment) -> list[Block]:
    """Give all that is needed to do it again."""
    rows = tuple((Cell(key), Cell(value)) for key, value in experiment.environment.items())
    return [
        Heading("To repeat this"),
        Code(experiment.command, "sh"),
        Table(("", ""), rows, num_labels=2),
        Details("The recipe, resolved", (Code(experiment.recipe, "yaml"),)),
    ]


def number_blocks(
    experiment: Experiment, scores: Mapping[str, Mapping[str, Sequence[Scores]]]
) -> list[Block]:
    """Give every number of every scores.json, for who wants to compute with them."""
    tables: list[Block] = []
    for model in experiment.models:
        for place, run in enumerate(model.runs):
            for setting, of_setting in scores.items():
                found = of_setting[model.label][place]
                told = f"{model.label}, seed {run.seed}, {SETTINGS[setting]}"
                tables += [_number_table(metric, found, told) for metric in found.metrics]
    return [Heading("All numbers"), Details("Each model, seed and language", tuple(tables))]


def _number_table(metric: Metric, scores: Scores, told: str) -> Table:
    found = scores.metrics[metric]
    rows = [
        (Cell(language), *_number_cells(entry.rate, entry.counts, scores.sizes[language]))
        for language, entry in found.languages.items()
    ]
    pooled = found.pooled
    rows.append((Cell("mean"), *_number_cells(found.macro, None, None)))
    rows.append((Cell("pooled"), *_number_cells(pooled.rate, pooled.counts, scores.total)))
    return Table(
        header=(
            *("", f"{metric.label} %", "95 % interval", "Right", "Substituted", "Deleted"),
            *("Inserted", "Utterances", "<unk>", "Empty references"),
        ),
        rows=tuple(rows),
        caption=f"{metric.label}: {told}",
    )


def _number_cells(rate: Estimate, counts: ErrorCounts | None, size: SetSize | None) -> list[Cell]:
    cells = [Cell(percent(rate.value)), Cell(percent_interval(rate))]
    if counts is None or size is None:
        return cells + [Cell("")] * 7
    numbers = (*astuple(counts), *astuple(size))
    return cells + [Cell(str(number)) for number in numbers]


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _interval(estimate: Estimate) -> str:
    return f"{points(estimate.low)}–{points(estimate.high)}"
