"""Counts that are kept of one day's seeds are pooled with another's as if all were of one day."""

import sys
from dataclasses import replace
from pathlib import Path

import pytest
from made_up import make_experiment

from arborvox.errors import ArborvoxError
from arborvox.report.document import Cell, Table
from arborvox.report.experiment import load_experiment
from arborvox.report.experiment_report import NUMBERS_NAME, make_report
from arborvox.report.results import read_table, results_as_json, write_results

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))
from groups import compare_pooled
from kept_scores import KeptScores, read_experiment_scores
from languages import compare, keep, read_layers
from publishing import publish

RATES = {"softmax": 0.4, "h-softmax": 0.1}


def rows_of(folder: Path, kept_in: Path | None = None) -> list[tuple[Cell, ...]]:
    """Return the table of an experiment, and of what was kept."""
    return read_layers("Sakha", keep("Sakha", folder, kept_in))


def test_seeds_of_two_days_are_as_those_of_one(tmp_path: Path) -> None:
    for name, seeds in {"both": (0, 1), "first": (0,), "second": (1,)}.items():
        make_experiment(tmp_path / name, RATES, seeds=seeds)
    ((_, number, *_),) = rows_of(tmp_path / "first", tmp_path / "kept")
    assert number.text == "1"
    pooled = rows_of(tmp_path / "second", tmp_path / "kept")
    assert pooled == rows_of(tmp_path / "both")
    ((name, number, softmax, tree, *_, difference),) = pooled
    assert (name.text, number.text) == ("Sakha, joint", "2")
    assert float(softmax.text.split()[0]) > float(tree.text.split()[0])
    assert difference.text.startswith("−")
    assert difference.strong
    assert rows_of(tmp_path / "second", tmp_path / "kept") == pooled, "the same seed counts once"


def test_output_layers_may_have_experiments_of_their_own(tmp_path: Path) -> None:
    make_experiment(tmp_path / "both", RATES)
    for name, rate in RATES.items():
        make_experiment(tmp_path / name, {name: rate})
    softmax = keep("Sakha", tmp_path / "softmax", None)
    assert len(read_layers("Sakha", softmax)) == 1, "the tree is missing there"
    joined = keep("Sakha", tmp_path / "h-softmax", None, softmax)
    assert read_layers("Sakha", joined) == rows_of(tmp_path / "both")


def test_any_two_models_are_compared_by_the_seeds_that_both_have(tmp_path: Path) -> None:
    make_experiment(tmp_path / "softmax", {"softmax": 0.4}, seeds=(0, 1, 2))
    make_experiment(tmp_path / "h-softmax", {"h-softmax": 0.1}, seeds=(1, 2))
    softmax = keep("Sakha", tmp_path / "softmax", None)
    kept = keep("Sakha", tmp_path / "h-softmax", None, softmax)
    name, number, cer, wer = compare("Sakha", kept, ("Softmax", "H-Softmax"))
    assert (name.text, number.text) == ("Sakha: H-Softmax − Softmax", "2")
    ((*_, difference),) = read_layers("Sakha", kept)
    assert cer == difference
    assert wer.text.startswith("−")
    assert compare("Sakha", kept, ("H-Softmax", "Softmax"))[2].text == cer.text.replace("−", "+")
    with pytest.raises(ArborvoxError, match="Sakha has no Tree; it has H-Softmax, Softmax"):
        compare("Sakha", kept, ("Softmax", "Tree"))


def test_rates_are_those_of_the_report(tmp_path: Path) -> None:
    make_experiment(tmp_path, RATES)
    ((_, _, *cells, _),) = rows_of(tmp_path)
    make_report(tmp_path, tmp_path / "report")
    told = [
        row[-1].text
        for metric in ("cer", "wer")
        for row in read_table(tmp_path / "report/report.json", f"free-{metric}").rows
    ]
    assert [cell.text for cell in cells] == told


def test_new_sentences_have_rows_of_their_own(tmp_path: Path) -> None:
    make_experiment(tmp_path, RATES)
    (tmp_path / "repeated.tsv").write_text("id\tset\nca-0\ttest\nes-1\ttest\n")
    whole, new = rows_of(tmp_path)
    assert new[0].text == f"{whole[0].text}, new sentences"
    assert read_experiment_scores(tmp_path).is_new.split().count("0") == 2
    (tmp_path / "repeated.tsv").write_text("id\tset\nca-0\ttest\n")
    assert len(rows_of(tmp_path)) == 1, "one of thirty is not worth rows of its own"


def test_a_layer_that_is_missing_is_told_so(tmp_path: Path) -> None:
    make_experiment(tmp_path, {"softmax": 0.4})
    ((_, _, softmax, tree, *_, difference),) = rows_of(tmp_path)
    assert (tree.text, difference.text) == ("–", "–")
    assert softmax.note


@pytest.mark.parametrize(
    ("recipe", "pooled"),
    [
        ("train: {seed: 7, max_epochs: 6}\nmodel: {pretrained: elsewhere}\n", True),
        ("train: {max_epochs: 6}\nmodel: {quantize: none}\n", True),  # as by default
        ("train: {max_epochs: 8}\n", False),
        ("train: {max_epochs: 6}\nmodel: {quantize: feed-forward}\n", False),
    ],
)
def test_only_seeds_of_the_same_settings_are_pooled(
    tmp_path: Path, recipe: str, pooled: bool
) -> None:
    for name, seeds, text in (
        ("first", (0,), "train: {max_epochs: 6}\n"),
        ("second", (1,), recipe),
    ):
        make_experiment(tmp_path / name, RATES, seeds=seeds)
        told = load_experiment(tmp_path / name)
        replace(told, recipe=text).save(tmp_path / name)
    rows_of(tmp_path / "first", tmp_path / "kept")
    if pooled:
        assert rows_of(tmp_path / "second", tmp_path / "kept")[0][1].text == "2"
        return
    before = (tmp_path / "kept/sakha.json").read_bytes()
    with pytest.raises(ArborvoxError, match="other settings"):
        rows_of(tmp_path / "second", tmp_path / "kept")
    assert (tmp_path / "kept/sakha.json").read_bytes() == before


def test_another_test_set_is_refused(tmp_path: Path) -> None:
    for name, count in (("first", 30), ("second", 24)):
        make_experiment(tmp_path / name, RATES, num_utterances=count)
    rows_of(tmp_path / "first", tmp_path / "kept")
    with pytest.raises(ArborvoxError, match="other utterances"):
        rows_of(tmp_path / "second", tmp_path / "kept")


def test_kept_counts_survive_their_file_and_a_damaged_one_is_named(tmp_path: Path) -> None:
    make_experiment(tmp_path / "experiment", RATES)
    found, path = read_experiment_scores(tmp_path / "experiment"), tmp_path / "kept.json"
    found.save(path)
    assert KeptScores.load(path) == found
    path.write_text("{}")
    with pytest.raises(ArborvoxError, match=r"kept\.json is damaged"):
        KeptScores.load(path)


def test_rows_that_are_measured_anew_stay_in_their_places(tmp_path: Path) -> None:
    """Rows of new names come behind those they were measured with, or last."""
    path = tmp_path / "table.json"

    def add(*rows: tuple[str, str]) -> list[tuple[str, ...]]:
        cells = tuple(tuple(map(Cell, row)) for row in rows)
        publish(path, {"rates": Table(("name", "rate"), cells)}, add=True)
        return [tuple(cell.text for cell in row) for row in read_table(path, "rates").rows]

    add(("first", "1"), ("second", "2"), ("third", "3"))
    anew = add(("second", "20"), ("fourth", "40"))
    assert anew == [("first", "1"), ("second", "20"), ("fourth", "40"), ("third", "3")]
    assert add(("fifth", "5")) == [*anew, ("fifth", "5")]


def test_pairs_of_several_experiments_stand_side_by_side(tmp_path: Path) -> None:
    header = ("", "A", "B", "Difference", "95 % interval", "p", "Utterances")
    for label, difference in (("one", "+1.0"), ("two", "−2.0")):
        rows = (("mean", "1", "2", "+9.0", "0 … 10", "0.5", "5"),)
        rows += (("pooled", "1", "2", difference, "0 … 3", "0.01", "5"),)
        table = Table(header, tuple(tuple(map(Cell, row)) for row in rows))
        tables = {"free-cer-B against A": table, "free-wer-B against A": table}
        report = tmp_path / label / "report" / NUMBERS_NAME
        report.parent.mkdir(parents=True)
        write_results(report, results_as_json("a command", {}, tables))
    found = compare_pooled([(label, tmp_path / label) for label in ("one", "two")], "cer")
    assert found.header == ("", "one", "two")
    told = [[(cell.text, cell.note) for cell in row[1:]] for row in found.rows]
    assert [row[0].text for row in found.rows] == ["B − A"]
    assert told == [[("+1.0", "0 … 3, p 0.01"), ("−2.0", "0 … 3, p 0.01")]]
