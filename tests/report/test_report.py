"""Laws of the report: whole, self-contained, honest."""

import json
import re
from html import unescape
from html.parser import HTMLParser
from pathlib import Path

import pytest
from made_up import LANGUAGES, make_experiment, score_file

from arborvox.errors import ArborvoxError
from arborvox.report import sections
from arborvox.report.experiment import load_experiment
from arborvox.report.experiment_report import make_report
from arborvox.report.markdown import render_table
from arborvox.report.results import read_table
from arborvox.score import counts, rates

VOID = {"meta", "img", "line", "rect", "br"}


class Outline(HTMLParser):
    """Follows the tags and collects text and links."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.links: list[str] = []
        self.tags: set[str] = set()
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.links += [value or "" for name, value in attrs if name in ("src", "href")]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] != "style":
            self.text += data + " "


@pytest.fixture(scope="module")
def reported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("experiment")
    rates = {"softmax": 0.4, "huffman": 0.1, "random": 0.39}
    make_experiment(folder, rates, settings=("free", "inventory"))
    make_report(folder, folder / "report")
    return folder


@pytest.fixture(scope="module")
def page(reported: Path) -> str:
    return (reported / "report/report.html").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def markdown(reported: Path) -> str:
    return (reported / "report/report.md").read_text(encoding="utf-8")


def outline(page: str) -> Outline:
    parser = Outline()
    parser.feed(page)
    return parser


def test_the_page_is_well_formed_and_needs_nothing_else(page: str) -> None:
    found = outline(page)
    assert found.open == []
    assert all(link.startswith("data:") for link in found.links)
    assert not {"script", "link", "iframe"} & found.tags
    assert "url(" not in page and "@import" not in page
    assert 'name="viewport"' in page and "@media print" in page


def test_names_cannot_break_the_page(page: str) -> None:
    assert "Made <up>" not in page
    assert "Made &lt;up&gt; &amp; told" in page


def test_every_number_of_the_scores_is_in_both_reports(
    reported: Path, page: str, markdown: str
) -> None:
    seen = {name: _numbers(text) for name, text in (("html", unescape(page)), ("md", markdown))}
    for path in reported.glob("*/*.scores.json"):
        for wanted in _numbers_of(json.loads(path.read_text(encoding="utf-8"))):
            for name, numbers in seen.items():
                assert wanted in numbers, f"{wanted} of {path.name} is not in the {name} report"


def _numbers(text: str) -> set[str]:
    return set(re.findall(r"\d+(?:\.\d+)?", text))


def _numbers_of(scores: dict) -> set[str]:
    found = set()
    for metric in scores["metrics"].values():
        for entry in [*metric["languages"].values(), metric["pooled"]]:
            found |= {str(count) for count in entry["counts"].values()}
            found |= {f"{100 * value:.2f}" for value in entry["rate"].values()}
        found |= {f"{100 * value:.2f}" for value in metric["macro"].values()}
    for size in [*scores["sizes"].values(), scores["total"]]:
        found |= {str(count) for count in size.values()}
    return found


def test_the_table_has_the_papers_layout_and_marks_the_best(markdown: str) -> None:
    header = f"| Model | {' | '.join(LANGUAGES)} | Overall (mean) | Overall (pooled) |"
    start = markdown.splitlines().index(header)
    rows = markdown.splitlines()[start + 2 : start + 5]
    assert [row.split(" | ")[0] for row in rows] == ["| Softmax", "| Huffman", "| Random"]
    assert "**" not in rows[0] and "**" not in rows[2]
    assert rows[1].count("**") == 2 * (len(LANGUAGES) + 2)


def test_real_differences_and_absent_ones_are_told_apart(markdown: str) -> None:
    assert "**Huffman is better than Softmax.**" in markdown
    assert "All 2 seeds agree." in markdown
    assert "**No difference between Softmax and Random can be shown.**" in markdown


def test_many_comparisons_without_a_finding_share_a_paragraph(tmp_path: Path) -> None:
    rates = {"one": 0.4, "two": 0.4, "three": 0.4, "four": 0.1}
    make_experiment(tmp_path, rates)
    make_report(tmp_path, tmp_path / "report")
    told, _, rest = (tmp_path / "report/report.md").read_text("utf-8").partition("\n## ")
    assert "more were scored" not in rest and "Four (CER" in rest
    assert "**Four is better than One.**" in told
    assert "**No difference from One can be shown for Two or Three.**" in told
    assert re.search(r"One, .*: Two [+−][\d.]+ \(.* to .*\); Three .*\. The least p is", told)
    assert told.count("**") == 4
    assert "4 models, seeds 0, 1, tested on 3 languages: ca, es, it." in told


def test_several_comparisons_are_corrected_for_their_number(markdown: str) -> None:
    assert markdown.count("as one of 2 comparisons, by Holm's correction") == 4


def test_many_languages_stand_below_each_other(
    tmp_path: Path, markdown: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "| Model | ca | es | it | Overall (mean) | Overall (pooled) |" in markdown
    monkeypatch.setattr(sections, "MOST_LANGUAGES_ACROSS", 2)
    make_experiment(tmp_path, {"first": 0.2, "second": 0.3}, seeds=[0])
    make_report(tmp_path, tmp_path / "report")
    told = (tmp_path / "report/report.md").read_text(encoding="utf-8")
    assert "| Language | First | Second |" in told
    assert "| Overall (pooled) |" in told


def test_models_that_hear_nothing_are_told(tmp_path: Path, markdown: str) -> None:
    make_experiment(tmp_path, {"first": 0.2, "second": 1.0})
    make_report(tmp_path, tmp_path / "report")
    told = (tmp_path / "report/report.md").read_text(encoding="utf-8")
    assert "**Hardly anything is recognized** by Second (" in told
    assert "Hardly anything" not in markdown


def test_two_models_that_name_each_other_are_one_comparison(tmp_path: Path) -> None:
    rates = {"first": 0.1, "second": 0.2}
    make_experiment(tmp_path, rates, against={"first": "second", "second": "first"})
    make_report(tmp_path, tmp_path / "report")
    told = (tmp_path / "report/report.md").read_text(encoding="utf-8")
    assert "First against Second: CER in %" in told
    assert "Second against First" not in told
    assert "First − Second, pooled" in told  # by words too


def test_a_model_is_measured_against_the_one_that_its_recipe_names(tmp_path: Path) -> None:
    rates = {"first": 0.4, "second": 0.1, "third": 0.1}
    make_experiment(tmp_path, rates, against={"third": "second"})
    make_report(tmp_path, tmp_path / "report")
    told = (tmp_path / "report/report.md").read_text(encoding="utf-8")
    assert "**Second is better than First.**" in told
    assert "**No difference between Second and Third can be shown.**" in told
    assert "Third against Second: CER in %" in told
    assert "Third against First" not in told


def test_it_says_how_to_repeat_it(page: str, markdown: str) -> None:
    for text in (page, markdown):
        for told in ("arborvox run made_up.yaml", "an abacus", "name: made up", "7 too long"):
            assert told in text


def test_speed_is_told_stage_by_stage(markdown: str) -> None:
    assert "| Huffman | 0.0050 | 0.0050 | 0.0050 | 0.0050 | 0.0050 | 0.0251 |" in markdown


def test_examples_show_what_was_said_and_heard(markdown: str) -> None:
    section = markdown.split("## What the models heard")[1].split("\n## ")[0]
    titles = re.findall(r"^\*\*(.+)\*\*$", section, flags=re.MULTILINE)
    assert len(titles) == 5
    assert len({title.split(" · ")[1] for title in titles}) == 5
    assert {title.split(" · ")[2] for title in titles} <= {"gained", "lost", "typical"}
    assert section.count("REF") == section.count("HYP") == 3 * 5


def test_the_same_experiment_gives_the_same_report(
    reported: Path, page: str, tmp_path: Path
) -> None:
    make_report(reported, tmp_path)
    assert (tmp_path / "report.html").read_text(encoding="utf-8") == page


def test_one_model_and_one_seed_can_be_reported(tmp_path: Path) -> None:
    make_experiment(tmp_path, {"huffman": 0.2}, seeds=(4,))
    make_report(tmp_path, tmp_path / "report")
    told = (tmp_path / "report/report.md").read_text(encoding="utf-8")
    assert "one seed" in told
    assert "worst" in told and "best" in told


def test_one_seed_is_not_sold_as_certainty(tmp_path: Path) -> None:
    make_experiment(tmp_path, {"softmax": 0.4, "huffman": 0.1}, seeds=(0,))
    make_report(tmp_path, tmp_path / "report")
    told = (tmp_path / "report/report.md").read_text(encoding="utf-8")
    assert "another seed may come out otherwise" in told


def test_models_with_other_test_sets_are_not_compared(tmp_path: Path) -> None:
    make_experiment(tmp_path, {"softmax": 0.4, "huffman": 0.1})
    path = tmp_path / "huffman-1/free.jsonl"
    path.write_text("\n".join(path.read_text().splitlines()[:-1]) + "\n")
    score_file(path)
    with pytest.raises(ArborvoxError, match=r"free\.scores\.json tells of other utterances"):
        make_report(tmp_path, tmp_path / "report")


def test_the_report_reads_the_scores_and_counts_nothing_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_experiment(tmp_path, {"softmax": 0.4, "huffman": 0.1})

    def refuse(*_: object) -> None:
        raise AssertionError("edits are counted in the score stage alone")

    monkeypatch.setattr(counts, "_count", refuse)
    monkeypatch.setattr(rates, "substituted_units", refuse)
    make_report(tmp_path, tmp_path / "report")
    assert "**Huffman is better than Softmax.**" in (tmp_path / "report/report.md").read_text()


def test_hypotheses_that_were_not_scored_are_not_shown(tmp_path: Path) -> None:
    make_experiment(tmp_path, {"softmax": 0.4})
    path = tmp_path / "softmax-0/free.jsonl"
    path.write_text("\n".join(path.read_text().splitlines()[:-1]) + "\n")
    with pytest.raises(ArborvoxError, match=r"free\.jsonl holds other utterances than were scored"):
        make_report(tmp_path, tmp_path / "report")


def test_old_and_damaged_scores_are_refused(tmp_path: Path) -> None:
    make_experiment(tmp_path, {"softmax": 0.4})
    path = tmp_path / "softmax-0/free.scores.json"
    stored = json.loads(path.read_text())
    path.write_text(json.dumps(stored | {"arborvox_scores": 1}))
    with pytest.raises(ArborvoxError, match="no scores of version 2; score the hypotheses again"):
        make_report(tmp_path, tmp_path / "report")
    for broken in ({"utterances": {"ca": {"ca-0": {}}}}, {"confusions": [1]}, {"total": []}):
        path.write_text(json.dumps(stored | broken))
        with pytest.raises(ArborvoxError, match="is damaged"):
            make_report(tmp_path, tmp_path / "report")


def test_the_json_has_the_tables_and_numbers_of_the_page(reported: Path, markdown: str) -> None:
    stored = json.loads((reported / "report/report.json").read_text(encoding="utf-8"))
    assert stored["command"] == "arborvox run made_up.yaml --out somewhere"
    assert {"free-cer", "inventory-wer", "models", "data", "confusions"} <= set(stored["tables"])
    for name in stored["tables"]:
        assert render_table(read_table(reported / "report/report.json", name)) in markdown
    pooled = stored["analyses"]["free"]["metrics"]["cer"]["models"]["Huffman"]["scores"]["pooled"]
    assert f"{100 * pooled['rate']['value']:.1f}" in markdown


def test_an_experiment_survives_its_file(tmp_path: Path) -> None:
    made = make_experiment(tmp_path, {"softmax": 0.4})
    assert load_experiment(tmp_path) == made


def test_a_folder_without_an_experiment_says_so(tmp_path: Path) -> None:
    with pytest.raises(ArborvoxError, match="`arborvox run` writes it"):
        load_experiment(tmp_path)


def test_examples_of_many_models_say_how_many_are_not_shown(tmp_path: Path) -> None:
    make_experiment(tmp_path, dict.fromkeys("abcdef", 0.3), num_utterances=5)
    make_report(tmp_path, tmp_path / "report")
    told = (tmp_path / "report/report.md").read_text(encoding="utf-8")
    assert "The first 4 models; 2 more were scored." in told
