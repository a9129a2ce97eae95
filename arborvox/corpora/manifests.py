"""What every preparer writes beside its cuts: statistics, a table, what was left out."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from rich.table import Table

from arborvox.console import say
from arborvox.files import clean_cell, write_lines
from arborvox.manifest import SPLIT_NAMES, split_file
from arborvox.text.look_alikes import LookAlike, code_points
from arborvox.version import VERSION

STATS_NAME = "stats.json"
SKIPPED_NAME = "skipped.tsv"
TABLE_NAME = "table.md"
SPLIT_TABLE_NAME = "split.tsv"
REPEATED_NAME = "repeated.tsv"

# A table with more languages than this is for the file, not for the screen.
MOST_ROWS_SHOWN = 30

# Left out because the user asked for it so; every other reason is a fault of the corpus.
SENTENCE_REASON = "sentence is in another split"
SPEAKER_REASON = "speaker is in another split"
RECORDING_REASON = "recording is in another split"
NOT_SAMPLED_REASON = "not sampled"
NOT_OFFICIAL_REASON = "not in the release's own splits"
NOT_VALIDATED_REASON = "not in validated.tsv"
NOT_KEPT_REASON = "not in the split that is kept"
IGNORED_REASON = "ignored text"
BY_DESIGN = {
    SENTENCE_REASON,
    SPEAKER_REASON,
    RECORDING_REASON,
    NOT_SAMPLED_REASON,
    NOT_OFFICIAL_REASON,
    NOT_VALIDATED_REASON,
    NOT_KEPT_REASON,
    IGNORED_REASON,
}

# The paper's groups and their neighbors, for the table's first column.
GROUPS = {
    "Romance": "ast ca es fr gl it oc pt rm ro sc",
    "Slavic": "be bg cs hsb mk pl ru sk sl sr uk",
    "Turkic": "az ba cv kk ky sah tk tr tt ug uz",
}
GROUP_OF = {language: group for group, text in GROUPS.items() for language in text.split()}


@dataclass(frozen=True, slots=True)
class Skipped:
    """A file (or a line of one) that did not become an utterance, and why."""

    file: str
    reason: str


@dataclass
class SplitStats:
    """How much one language has in one split."""

    utterances: int = 0
    hours: float = 0.0
    speakers: int = 0


@dataclass
class CorpusStats:
    """What a prepared corpus holds, as `stats.json` says it."""

    kind: str
    options: dict[str, Any]
    languages: dict[str, dict[str, SplitStats]] = field(default_factory=dict)
    skipped: dict[str, int] = field(default_factory=dict)
    notes: dict[str, Any] = field(default_factory=dict)

    def note_look_alikes(self, found: dict[str, tuple[LookAlike, ...]], *, unified: bool) -> None:
        """Keep what was found in each language's texts, and what was done about it."""
        self.notes["look_alikes"] = {
            language: [
                {
                    "letter": pair.letter,
                    "codes": code_points(pair.letter),
                    "count": pair.count,
                    "like": pair.like,
                    "like_codes": code_points(pair.like),
                    "like_count": pair.like_count,
                    "unified": unified or pair.is_composed,
                }
                for pair in pairs
            ]
            for language, pairs in sorted(found.items())
            if pairs
        }

    def hours(self, split: str) -> float:
        """Total hours of a split."""
        return sum(splits[split].hours for splits in self.languages.values())

    def utterances(self, split: str) -> int:
        """Total utterances of a split."""
        return sum(splits[split].utterances for splits in self.languages.values())

    def to_json(self) -> str:
        """Return the text of stats.json."""
        totals = {
            split: {"utterances": self.utterances(split), "hours": round(self.hours(split), 4)}
            for split in SPLIT_NAMES
        }
        value = {
            "arborvox": VERSION,
            "kind": self.kind,
            "options": self.options,
            "total": totals,
            "languages": {
                language: {name: asdict(stats) for name, stats in splits.items()}
                for language, splits in sorted(self.languages.items())
            },
            "skipped": dict(sorted(self.skipped.items())),
            **self.notes,
        }
        return json.dumps(value, ensure_ascii=False, indent=2) + "\n"


def write_skipped(path: Path, skipped: Sequence[Skipped]) -> None:
    """Write the list of what was left out, a file and a reason a line."""
    rows = (f"{clean_cell(row.file)}\t{clean_cell(row.reason)}" for row in skipped)
    write_lines(path, ["file\treason", *rows])


def reason_kind(reason: str) -> str:
    """Return a reason without its particulars, for counting: `too long: 90 s` is `too long`."""
    return reason.partition(":")[0].partition(" (")[0]


def show_corpus(stats: CorpusStats, out: Path) -> None:
    """Show the table and the counts of what was left out on screen."""
    table = Table(title=f"{stats.kind}: hours per language", title_justify="left")
    table.add_column("Group")
    table.add_column("Language")
    for split in SPLIT_NAMES:
        table.add_column(f"{split} (h)", justify="right")
        table.add_column("utt.", justify="right")
    rows = _table_rows(stats)
    if len(rows) > MOST_ROWS_SHOWN:
        rows = [["", f"{len(rows) - 1} languages", *rows[-1][2:]]]
    for row in rows:
        table.add_row(*row)
    say(table)
    if stats.notes.get("look_alikes"):
        _show_look_alikes(stats.notes["look_alikes"], out)
    if stats.skipped:
        total = sum(stats.skipped.values())
        most = sorted(stats.skipped.items(), key=lambda item: (-item[1], item[0]))
        listed = ", ".join(f"{count:,} {reason}" for reason, count in most)
        say(f"left out: {total:,} ({listed}); each one is in {out / SKIPPED_NAME}")
    manifests = ", ".join(split_file(split) for split in SPLIT_NAMES)
    say(f"wrote {manifests}, {STATS_NAME} and {TABLE_NAME} (hours of every language) in {out}")


def _show_look_alikes(found: dict[str, list[dict[str, Any]]], out: Path) -> None:
    """Show letters that have look-alikes, and say what can be done about them."""
    table = Table(title="Letters that look alike", title_justify="left")
    for column in ("Language", "Letter", "Code", "Looks like", "Code", "Now"):
        table.add_column(column)
    rows = [(language, pair) for language, pairs in found.items() for pair in pairs]
    for language, pair in rows[:MOST_ROWS_SHOWN]:
        letter = f"{pair['letter']} ({pair['count']:,} times)"
        like = f"{pair['like']} ({pair['like_count']:,} times)"
        now = "one letter" if pair["unified"] else "two"
        table.add_row(language, letter, pair["codes"], like, pair["like_codes"], now)
    say(table)
    if len(rows) > MOST_ROWS_SHOWN:
        say(f"and {len(rows) - MOST_ROWS_SHOWN:,} more in {out / STATS_NAME}")
    if not all(pair["unified"] for _, pair in rows):
        say("--look-alikes unify makes one of two, as the language's other letters are")


def table_markdown(stats: CorpusStats) -> str:
    """Return the table as Markdown, in the layout of the paper's Table 1."""
    columns = ["Group", "Language"]
    for split in SPLIT_NAMES:
        columns += [f"{split} (h)", "utterances"]
    lines = [
        "| " + " | ".join(columns) + " |",
        "| --- | --- |" + " ---: |" * (len(columns) - 2),
        *("| " + " | ".join(row) + " |" for row in _table_rows(stats)),
    ]
    return "\n".join(lines) + "\n"


def _table_rows(stats: CorpusStats) -> list[list[str]]:
    """Return the table's rows, grouped as the paper does, with a last row of totals."""
    languages = sorted(stats.languages, key=lambda code: (GROUP_OF.get(code, "~"), code))
    rows, last_group = [], ""
    for language in languages:
        group = GROUP_OF.get(language, "")
        row = [group if group != last_group else "", language]
        last_group = group
        for split in SPLIT_NAMES:
            part = stats.languages[language][split]
            row += [f"{part.hours:.2f}", f"{part.utterances:,}"]
        rows.append(row)
    total = ["", "all"]
    for split in SPLIT_NAMES:
        total += [f"{stats.hours(split):.2f}", f"{stats.utterances(split):,}"]
    return [*rows, total]
