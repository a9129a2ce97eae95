"""Laws of comparing models, and of the tables and alignments that show it."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len

from arborvox.errors import ArborvoxError
from arborvox.report.alignments import draw_alignment
from arborvox.report.comparison_report import paper_table
from arborvox.report.document import Cell, Document, Example, Heading, Hearing, Table
from arborvox.report.markdown import render_markdown, render_table
from arborvox.report.wording import best_places
from arborvox.score import HypothesisFile, Metric, Transcription, compare_hypotheses
from arborvox.score.comparison import Confusion, name_models
from arborvox.score.counts import ErrorCounts

SAID = {"ca-1": "bon dia", "ca-2": "gat", "es-1": "hola", "es-2": "perro"}


def heard_by(run: str, unit: str = "char", **texts: str) -> HypothesisFile:
    """A model's file: what it heard of SAID, by id with _ for -; the rest it got right."""
    heard = SAID | {name.replace("_", "-"): text for name, text in texts.items()}
    return HypothesisFile(
        path=Path(f"{run}.jsonl"),
        unit=unit,
        run=f"runs/{run}",
        mode="ctc-greedy",
        normalization="lower case",
        transcriptions=tuple(
            Transcription(name, name[:2], SAID.get(name, ""), text) for name, text in heard.items()
        ),
        header={},
    )


def test_models_are_scored_on_what_all_have() -> None:
    first, second = heard_by("soft", ca_3="x"), heard_by("tree", es_9="y")
    comparison = compare_hypotheses([first, second], num_samples=10)
    assert comparison.models == ("soft", "tree")
    assert comparison.num_utterances == {"ca": 2, "es": 2}
    assert comparison.missing == {"soft": ("es-9",), "tree": ("ca-3",)}
    assert all(scores.macro.value == 0 for scores in comparison.metrics[Metric.cer].scores)


def test_each_later_model_is_measured_against_the_first() -> None:
    files = [heard_by("a", ca_2="gxx"), heard_by("b", ca_2="gax"), heard_by("c", ca_2="xxx")]
    found = compare_hypotheses(files, num_samples=10).metrics[Metric.cer].differences
    changes = [differences.languages["ca"].estimate.value for differences in found]
    assert changes == pytest.approx([-1 / 10, 1 / 10])


def test_confusions_are_counted_by_model_most_frequent_first() -> None:
    files = [heard_by("a", es_2="pello", es_1="hora"), heard_by("b", es_2="pelro")]
    comparison = compare_hypotheses(files, num_samples=10)
    assert comparison.confusions == (Confusion("r", "l", (2, 1)), Confusion("l", "r", (1, 0)))


def test_hardest_utterances_come_by_the_errors_of_all_models() -> None:
    files = [heard_by("a", es_1="h", ca_2="gax"), heard_by("b", es_2="", ca_2="gax")]
    hardest = compare_hypotheses(files, num_samples=10, num_hardest=2).hardest
    assert [utterance.id for utterance in hardest] == ["es-2", "es-1"]
    assert hardest[0].texts == ("perro", "")
    assert hardest[0].counts == (ErrorCounts(hits=5), ErrorCounts(deletions=5))


def test_what_cannot_be_compared_is_refused() -> None:
    other = heard_by("b")
    moved = tuple(
        Transcription(entry.id, entry.language, entry.reference.upper(), entry.text)
        for entry in other.transcriptions
    )
    changed = HypothesisFile(**(vars(other) | {"transcriptions": moved}))
    with pytest.raises(ArborvoxError, match="4 utterances, ca-1 the first, have another"):
        compare_hypotheses([heard_by("a"), changed])
    with pytest.raises(ArborvoxError, match=r"char units and b\.jsonl phone units"):
        compare_hypotheses([heard_by("a"), heard_by("b", unit="phone")])
    with pytest.raises(ArborvoxError, match="two hypothesis files"):
        compare_hypotheses([heard_by("a")])
    apart = HypothesisFile(
        **(vars(other) | {"transcriptions": (Transcription("x", "ca", "a", "a"),)})
    )
    with pytest.raises(ArborvoxError, match="no utterance in common"):
        compare_hypotheses([heard_by("a"), apart])


def test_characters_and_pieces_can_be_compared() -> None:
    comparison = compare_hypotheses([heard_by("a"), heard_by("b", unit="bpe")], num_samples=10)
    assert list(comparison.metrics) == [Metric.cer, Metric.wer]


def test_names_tell_models_apart() -> None:
    a, b = heard_by("a"), heard_by("b")
    beam = HypothesisFile(**(vars(a) | {"mode": "attention"}))
    elsewhere = HypothesisFile(**(vars(a) | {"path": Path("other.jsonl")}))
    assert name_models([a, b]) == ("a", "b")
    assert name_models([a, beam]) == ("a ctc-greedy", "a attention")
    assert name_models([a, elsewhere]) == ("a", "other")
    assert name_models([a, a]) == ("a (1)", "a (2)")


def test_the_paper_table_has_the_better_value_in_bold_and_ties_in_none() -> None:
    comparison = compare_hypotheses(
        [heard_by("soft", ca_2="gax"), heard_by("tree")], num_samples=10
    )
    table = render_table(paper_table(Metric.cer, comparison))
    assert table.splitlines()[0] == "| Model | ca | es | Overall |"
    assert table.splitlines()[2:] == [
        "| soft | 10.0 | 0.0 | 5.0 |",
        "| tree | **0.0** | 0.0 | **0.0** |",
    ]


def test_all_of_several_best_are_bold() -> None:
    assert best_places([0.0541, 0.054, 0.055]) == {0, 1}
    assert best_places([0.01, 0.01]) == set()


def test_markdown_cells_are_never_markup() -> None:
    table = Table(("a|b", "*c*"), ((Cell("<unk>"), Cell("_x_")),))
    lines = render_markdown(Document("t", "", (Heading("<unk>"), table)), Path()).splitlines()
    assert lines[2] == r"## \<unk\>"
    assert lines[4] == r"| a\|b | \*c\* |"
    assert lines[6] == r"| \<unk\> | \_x\_ |"


def test_no_utterance_ends_its_fence() -> None:
    example = Example("x", "a ``` b", Metric.wer, (Hearing("m", "```", "1 error"),))
    lines = render_markdown(Document("t", "", (example,)), Path()).splitlines()
    assert lines[4] == lines[-1] == "````"


def test_an_alignment_marks_every_error() -> None:
    drawn = draw_alignment("bon dia", "bom daa", Metric.cer)
    assert drawn.splitlines() == ["REF  bon dia", "HYP  bom daa", "       S  S"]
    spaces = draw_alignment("a b", "ab", Metric.cer)
    assert spaces.splitlines() == ["REF  a␣b", "HYP  a*b", "      D"]
    phones = draw_alignment("t͡ʃ a n", "ʃ a n ŋ", Metric.per)
    assert phones.splitlines() == ["REF  t͡ʃ a n *", "HYP  ʃ  a n ŋ", "     S      I"]


@settings(deadline=None, derandomize=True, max_examples=150)
@given(st.text("ab 語\u0301\u200b", max_size=60), st.text("ab 語\u0301", max_size=60))
def test_alignment_lines_fit_and_stand_below_each_other(said: str, heard: str) -> None:
    for block in draw_alignment(said, heard, Metric.cer, width=30).split("\n\n"):
        reference, hypothesis, *below = block.split("\n")
        marks = "".join(below)  # nothing stands below a block without errors
        assert max(map(cell_len, (reference, hypothesis, marks))) <= 30
        assert set(marks) <= set(" SDI")
        assert cell_len(marks) <= max(cell_len(reference), cell_len(hypothesis))


def test_an_empty_pair_can_be_drawn() -> None:
    assert draw_alignment("", "", Metric.per).splitlines() == ["REF", "HYP"]
