"""`arborvox score` and `arborvox compare`, from files to files."""

import csv
import json
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from arborvox.cli import score as score_command
from arborvox.errors import ArborvoxError

app = typer.Typer()
score_command.register(app)

SAID = {"abk": ["t͡ʃ a n", "m a", ""], "mal": ["k u ɭ", "p a [x]"]}


def run(*words: object) -> str:
    """Run a command; return what it printed on standard output, or raise what it raised."""
    result = CliRunner().invoke(app, [str(word) for word in words])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.stdout


def write_hypotheses(path: Path, run_name: str, wrong: str, unit: str = "phone") -> Path:
    """Hypotheses where each `a` was heard as `wrong`, and something in the empty reference."""
    header = {
        "arborvox_hypotheses": 1, "run": f"runs/{run_name}", "mode": "ctc-greedy", "unit": unit,
        "normalization": "phones as transcribed.",
    }  # fmt: skip
    rows = [header]
    for language, references in SAID.items():
        for number, reference in enumerate(references):
            heard = reference.replace("a", wrong) if reference else "u"
            rows.append(
                {"id": f"{language}-{number}", "language": language, "reference": reference,
                 "text": heard, "num_unknown": heard.count("�")}
            )  # fmt: skip
    lines = (json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    path.write_text("".join(lines), encoding="utf-8")
    return path


def test_score_shows_and_writes_all_three_files(tmp_path: Path) -> None:
    shown = run("score", write_hypotheses(tmp_path / "hyps.jsonl", "tree", "�"))
    assert "PER in %" in shown
    assert "References: phones as transcribed." in shown
    assert "3 <unk> in the hypotheses" in shown
    assert "1 references are empty" in shown
    assert "Fewer than 20 utterances" in shown
    markdown = (tmp_path / "hyps.scores.md").read_text(encoding="utf-8")
    assert "| abk | 3 | 5 | **60.00** |" in markdown
    rows = list(csv.DictReader((tmp_path / "hyps.scores.csv").open(encoding="utf-8")))
    assert [row["language"] for row in rows] == ["abk", "mal", "macro", "pooled"]
    assert float(rows[2]["rate"]) == pytest.approx((3 / 5 + 1 / 6) / 2)
    stored = json.loads((tmp_path / "hyps.scores.json").read_text(encoding="utf-8"))
    assert stored["header"]["run"] == "runs/tree"
    assert stored["metrics"]["per"]["pooled"]["counts"] == {
        "hits": 8, "substitutions": 3, "deletions": 0, "insertions": 1,
    }  # fmt: skip


def test_score_takes_a_prefix_with_dots_or_a_folder(tmp_path: Path) -> None:
    hypotheses = write_hypotheses(tmp_path / "hyps.jsonl", "tree", "e")
    run("score", hypotheses, "--out", tmp_path / "new" / "run.v2")
    assert {path.name for path in (tmp_path / "new").iterdir()} == {
        "run.v2.md", "run.v2.csv", "run.v2.json",
    }  # fmt: skip
    run("score", hypotheses, "--out", tmp_path / "new")
    assert (tmp_path / "new" / "hyps.scores.json").is_file()


def test_score_is_the_same_for_the_same_seed(tmp_path: Path) -> None:
    hypotheses = write_hypotheses(tmp_path / "hyps.jsonl", "tree", "e")
    stored = []
    for seed in (1, 1, 2):
        run("score", hypotheses, "--seed", seed, "--samples", 200)
        stored.append((tmp_path / "hyps.scores.csv").read_bytes())
    assert stored[0] == stored[1] != stored[2]


def test_texts_get_characters_and_words(tmp_path: Path) -> None:
    shown = run("score", write_hypotheses(tmp_path / "hyps.jsonl", "tree", "e", unit="char"))
    assert "CER in %" in shown
    assert "WER in %" in shown


def test_compare_shows_and_writes_everything(tmp_path: Path) -> None:
    first = write_hypotheses(tmp_path / "a.jsonl", "softmax", "o")
    second = write_hypotheses(tmp_path / "b.jsonl", "h-softmax", "a")
    shown = run("compare", first, second, "--out", tmp_path / "both")
    assert "PER: h-softmax against softmax" in shown
    assert "a → o" in shown
    assert "HYP  t͡ʃ o n" in shown
    markdown = (tmp_path / "both.md").read_text(encoding="utf-8")
    assert "| Model | abk | mal | Overall |" in markdown
    assert "| h-softmax | **20.0** | **0.0** | **10.0** |" in markdown
    assert "| a → o | 3 | 0 | -3 |" in markdown
    assert "\nREF  p a [x]\nHYP  p o [x]\n       S\n" in markdown
    rows = list(csv.DictReader((tmp_path / "both.csv").open(encoding="utf-8")))
    assert [row["difference"] == "" for row in rows] == [True] * 4 + [False] * 4
    assert float(rows[4]["difference"]) == pytest.approx(1 / 5 - 3 / 5)
    confusions = (tmp_path / "both.confusions.csv").read_text(encoding="utf-8")
    assert confusions == "said,heard,softmax,h-softmax\na,o,3,0\n"
    stored = json.loads((tmp_path / "both.json").read_text(encoding="utf-8"))
    assert [model["name"] for model in stored["models"]] == ["softmax", "h-softmax"]
    assert stored["metrics"]["per"]["differences"]["h-softmax"]["macro"]["p_value"] > 0.05


def test_compare_with_itself_finds_nothing(tmp_path: Path) -> None:
    same = write_hypotheses(tmp_path / "a.jsonl", "softmax", "o")
    run("compare", same, same, "--out", tmp_path)
    stored = json.loads((tmp_path / "comparison.json").read_text(encoding="utf-8"))
    found = stored["metrics"]["per"]["differences"]["softmax (2)"]["pooled"]
    assert found["estimate"] == {"value": 0, "low": 0, "high": 0}
    assert found["p_value"] == 1


def test_compare_lists_missing_utterances(tmp_path: Path) -> None:
    first = write_hypotheses(tmp_path / "a.jsonl", "softmax", "o")
    second = write_hypotheses(tmp_path / "b.jsonl", "h-softmax", "a")
    lines = second.read_text(encoding="utf-8").splitlines(keepends=True)
    second.write_text("".join(lines[:-1]), encoding="utf-8")
    shown = run("compare", first, second, "--out", tmp_path / "both")
    assert "h-softmax lacks 1 utterances, left out for all: mal-1" in shown


def test_confusions_and_worst_can_be_left_out(tmp_path: Path) -> None:
    first = write_hypotheses(tmp_path / "a.jsonl", "softmax", "o")
    second = write_hypotheses(tmp_path / "b.jsonl", "h-softmax", "a")
    shown = run(
        "compare", first, second, "--confusions", 0, "--worst", 0, "--out", tmp_path / "both"
    )
    assert "substitutions" not in shown
    assert "REF" not in shown


def test_a_damaged_line_is_named(tmp_path: Path) -> None:
    path = write_hypotheses(tmp_path / "a.jsonl", "softmax", "o")
    path.write_text(path.read_text(encoding="utf-8")[:-20], encoding="utf-8")
    with pytest.raises(ArborvoxError, match="line 6: not valid JSON"):
        run("score", path)
    assert list(tmp_path.iterdir()) == [path]


def test_a_part_of_the_test_set_is_scored_by_itself(tmp_path: Path) -> None:
    """Utterances of a table, and all others, add up to the whole; its files stay as they were."""
    path = write_hypotheses(tmp_path / "hyps.jsonl", "a", wrong="x")
    ids = [json.loads(line)["id"] for line in path.read_text().splitlines()[1:]]
    (tmp_path / "repeated.tsv").write_text("id\tset\n" + "".join(f"{i}\ttest\n" for i in ids[:2]))
    table = tmp_path / "repeated.tsv"
    run("score", path)
    assert "left out" in run("score", path, "--except", table)
    assert "Only the utterances" in run("score", path, "--only", table)
    sizes = {}
    for name in ("hyps", "hyps.except-repeated", "hyps.only-repeated"):
        scores = json.loads((tmp_path / f"{name}.scores.json").read_text())
        sizes[name] = sum(size["num_utterances"] for size in scores["sizes"].values())
    assert sizes["hyps"] == len(ids)
    assert sizes["hyps.only-repeated"] == 2
    assert sizes["hyps.except-repeated"] == len(ids) - 2


def test_a_table_without_ids_or_with_all_of_them_is_refused(tmp_path: Path) -> None:
    path = write_hypotheses(tmp_path / "hyps.jsonl", "a", wrong="x")
    table = tmp_path / "t.tsv"
    table.write_text("name\n")
    for content, told in (("name\n", "first column has to be called id"), ("id\n", "no utterance")):
        table.write_text(content)
        result = CliRunner().invoke(app, ["score", str(path), "--only", str(table)])
        assert isinstance(result.exception, ArborvoxError)
        assert told in str(result.exception)
