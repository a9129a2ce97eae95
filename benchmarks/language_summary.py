"""Four languages in one table and one picture: what you get, and what others have published.

    python benchmarks/language_summary.py --json results/languages.json
        --picture docs/pictures/four_languages.png

Reads what benchmarks/languages.py wrote to --json, measures nothing, and adds the table "summary".
"""

import argparse
from dataclasses import replace
from pathlib import Path

from languages import MISSING
from publishing import tell

from arborvox.report.document import Cell, Table
from arborvox.report.results import read_table

FROM_SCRATCH, FROZEN, WITH_LM = "from scratch", "on Whisper base", "with a language model"
PUBLISHED = "published"
HEADER = (
    "corpus",
    "hours to train on",
    f"CER, {FROM_SCRATCH}",
    f"CER, {FROZEN}",
    f"CER, {WITH_LM}",
    f"CER, {PUBLISHED}",
    f"WER, {FROZEN}",
    f"WER, {WITH_LM}",
    f"WER, {PUBLISHED}",
)
NEW = ", new sentences"
ROWS = ("Iban", "Fongbe", f"Fongbe{NEW}", "Mboshi", "Ibibio")
# CER and WER of encoders of some fifteen times the size, without a language model. Those of Ibibio
# (7.3 and 32.4) are of a split that shares sentences and speakers, and cannot be compared.
OTHERS = {
    "Iban": (6.9, 22.3, "WavLM-large, frozen"),
    "Fongbe": (4.0, 9.5, "MMS-300M"),
    "Mboshi": (8.6, 33.1, "MMS-300M, split not stated"),
}
COLORS = {FROM_SCRATCH: "#b9c0c8", FROZEN: "#4878a8", WITH_LM: "#1d3f63"}
# Above a mark that a number would be crossed by.
BEHIND_TEXT = {"facecolor": "white", "edgecolor": "none", "pad": 0.8}

Row = dict[str, Cell]


def summarize(path: Path) -> Table:
    """Put the rates of each corpus beside each other; softmax, as the plainer of the two layers."""
    layers, scratch = (_read_rows(path, name) for name in ("layers", "scratch"))
    scratch_layers = _read_rows(path, "scratch-layers")
    hours = {name: row["hours to train on"] for name, row in _read_rows(path, "languages").items()}
    rows = []
    for name in ROWS:
        corpus, _, rest = name.partition(", ")
        new = f", {rest}" if rest else ""
        joint, with_lm = (layers[f"{corpus}, {search}{new}"] for search in ("joint", WITH_LM))
        if f"{corpus}, joint{new}" in scratch_layers:
            from_scratch = scratch_layers[f"{corpus}, joint{new}"]["CER, softmax"]
        else:
            from_scratch = scratch[name]["CER, %"] if name in scratch else MISSING
        cer, wer = (
            [row[f"{rate}, softmax"] for row in (joint, with_lm)] for rate in ("CER", "WER")
        )
        others = [MISSING, MISSING]
        if name in OTHERS:
            *rates, by = OTHERS[name]
            others = [Cell(f"{rate:.1f}", by) for rate in rates]
        rows.append((Cell(name), hours[corpus], from_scratch, *cer, others[0], *wer, others[1]))
    return Table(HEADER, tuple(tuple(map(_mean_alone, row)) for row in rows))


def _read_rows(path: Path, name: str) -> dict[str, Row]:
    table = read_table(path, name)
    return {row[0].text: dict(zip(table.header, row, strict=True)) for row in table.rows}


def _mean_alone(cell: Cell) -> Cell:
    """Leave out how far seeds are apart: the interval is beside it."""
    return replace(cell, text=cell.text.partition(" ±")[0])


def draw(table: Table, path: Path) -> None:
    """Draw a bar with its interval for each way, and what others have published as a mark."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    rows = [dict(zip(table.header, row, strict=True)) for row in table.rows]
    figure, axes = pyplot.subplots(figsize=(8, 4.2), constrained_layout=True)
    height = 0.8 / len(COLORS)
    for way, (label, color) in enumerate(COLORS.items()):
        bars = [
            (place + (way - 1) * height, *_numbers(row[f"CER, {label}"]))
            for place, row in enumerate(rows)
            if row[f"CER, {label}"] != MISSING
        ]
        places, rates, lows, highs = zip(*bars, strict=True)
        axes.barh(places, rates, height * 0.92, color=color, label=label)
        axes.hlines(places, lows, highs, color="#222222", linewidth=1)
        for place, rate, high in zip(places, rates, highs, strict=True):
            axes.text(high + 0.2, place, f"{rate:.1f}", va="center", fontsize=8, bbox=BEHIND_TEXT)
    for place, row in enumerate(rows):
        if row[f"CER, {PUBLISHED}"] != MISSING:
            rate = float(row[f"CER, {PUBLISHED}"].text)
            mark = axes.vlines(rate, place - 0.45, place + 0.45, color="#c4552d", linewidth=3)
    mark.set_label("published, fifteen times the size")
    names = [f"{row['corpus'].text}\n{row['hours to train on'].text} h" for row in rows]
    axes.set_yticks(range(len(rows)), [name.replace(", ", ",\n") for name in names])
    axes.invert_yaxis()
    axes.set(xlabel="CER, %, with 95 % intervals; less is better", xlim=(0, None))
    axes.grid(axis="x", alpha=0.3)
    axes.set_axisbelow(True)
    figure.legend(loc="outside upper center", ncols=len(COLORS) + 1, frameon=False, fontsize=9)
    figure.savefig(path, dpi=120)


def _numbers(cell: Cell) -> tuple[float, float, float]:
    low, high = map(float, cell.note.split("–"))
    return float(cell.text), low, high


def main() -> None:
    """Print the table, add it to the file and its page, and draw it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--json", type=Path, required=True)
    parser.add_argument("--picture", type=Path)
    arguments = parser.parse_args()
    table = summarize(arguments.json)
    tell({"summary": table}, arguments.json, add=True)
    if arguments.picture is not None:
        draw(table, arguments.picture)
        print(f"wrote {arguments.picture}")


if __name__ == "__main__":
    main()
