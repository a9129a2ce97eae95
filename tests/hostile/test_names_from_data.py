"""Names and codes from data: none reaches out of its folder, none but a sentence is the answer."""

import ast
import gzip
import json
import tempfile
from pathlib import Path

import pytest
from budgets import examples
from hypothesis import given
from hypothesis import strategies as st

from arborvox.config import FolderCorpus
from arborvox.corpora import prepare
from arborvox.errors import ArborvoxError
from arborvox.files import path_below
from arborvox.manifest import Utterance, cut_line, split_by_language
from arborvox.pipeline.decoding import _find_inventories
from arborvox.text.codes import check_language, check_languages, file_stem
from arborvox.tokens import TextCorpus, Tokenizer

PACKAGE = Path(__file__).parents[2] / "arborvox"

TRICKS = [
    *("../../x", "..", ".", "/etc/x", "C:\\x", "a/b", "a\\b", "a\0b", "con", "aux.txt", "NUL", "~"),
    *("", " ", "x" * 300, "é" * 150, "a\nb", "\ud800", "a:b", "ca.", "COM1", "lpt9.jsonl", "-rf"),
    *("ca", "zh-CN", "x-village", "und", "rumanian", "pt-BR", "pt-br", "$(id)", "%2e%2e", "..-x"),
]
names = st.one_of(
    st.sampled_from(TRICKS),
    st.text(st.characters(), max_size=20),
    st.text(st.sampled_from("aZ0-_./\\:x \0"), max_size=12),
)

# Every f-string that becomes a path. Their holes hold numbers and choices of ours, never data.
MADE_OF_OUR_OWN = {
    ("corpora/shards.py", "{split}-{number:06d}"),
    ("decode/finished.py", ".finished-{mark}.jsonl"),
    ("shards/addresses.py", "{name}.tar"),
    ("shards/addresses.py", "arborvox-shards-{owner}"),
    ("shards/feature_cache.py", "{name}.features"),
    ("shards/packing.py", "cuts.{number:06d}.jsonl.gz"),
    ("shards/packing.py", "{split}-{n:03d}.jsonl"),
    ("training/state.py", "step-{step:06d}"),
    ("project/learning.py", "{name}.jsonl"),  # old or new
    ("features.py", "{key[2:]}.npy"),  # of a checksum
    ("pipeline/stages.py", "{name}-{number}"),  # of a stage's folder, which was checked
    ("corpora/__init__.py", "more-{number}-{part.kind}"),
    ("corpora/common_voice_tables.py", "{split}.tsv"),
    ("corpora/kaldi_folders.py", "{self._prefix}{name}"),  # of a file that is there, as listed
    ("lm/counting.py", "{next(self._numbers)}.bin"),
    ("corpora/espeak.py", "{found[1] if found else voice.name}_dict"),  # of espeak-ng's own data
    ("tokens/gallery.py", "{kind}.json"),
    ("tokens/gallery.py", "{kind}.svg"),
    ("export/exporting.py", "{name}.onnx"),  # of our own graphs
}


def test_paths_are_made_from_data_in_one_place_alone() -> None:
    found = set()
    for path in sorted(PACKAGE.rglob("*.py")):
        source = path.read_text(encoding="utf-8")
        for node in ast.walk(ast.parse(source)):
            if (
                isinstance(node, ast.BinOp)
                and isinstance(node.op, ast.Div)
                and isinstance(node.right, ast.JoinedStr)
                and any(isinstance(part, ast.FormattedValue) for part in node.right.values)
            ):
                text = ast.get_source_segment(source, node.right) or ""
                found.add((path.relative_to(PACKAGE).as_posix(), text[2:-1]))
    assert found <= MADE_OF_OUR_OWN, "use files.path_below, or say here whose name it is"


@examples(100, 2000)
@given(st.lists(names, min_size=1, max_size=3))
def test_a_path_from_data_stays_below_its_folder(parts: list[str]) -> None:
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "out"
        try:
            path = path_below(folder, *parts)
        except ArborvoxError as error:
            assert "cannot be the name of a file" in str(error)
            return
        assert path.relative_to(folder).parts == tuple(parts)
        path.parent.mkdir(parents=True)
        path.write_text("x")
        assert path.resolve().is_relative_to(folder.resolve())
        assert [file for file in Path(place).rglob("*") if file.is_file()] == [path]


@pytest.mark.parametrize("name", [trick for trick in TRICKS[:23] if trick not in ("~", "-rf")])
def test_names_that_lead_elsewhere_are_refused(name: str) -> None:
    with pytest.raises(ArborvoxError):
        path_below(Path("out"), name)


@examples(100, 2000)
@given(names)
def test_a_code_that_is_accepted_is_a_name_for_a_file(code: str) -> None:
    try:
        assert check_language(code, "here") == code
    except ArborvoxError as error:
        assert str(error).startswith("here: ") and str(error).isprintable()
        return
    path_below(Path("out"), file_stem(code))


@examples(100, 2000)
@given(st.lists(names, min_size=1, max_size=4))
def test_a_test_set_of_any_languages_is_split_inside_its_folder(codes: list[str]) -> None:
    with tempfile.TemporaryDirectory() as place:
        cuts, folder = Path(place) / "cuts.jsonl.gz", Path(place) / "out"
        folder.mkdir()
        with gzip.open(cuts, "wb") as file:
            for code in codes:
                line = cut_line(Utterance("a", "a.wav", code, "a", 16_000, 16_000))
                file.write(line.encode("utf-8", "surrogatepass"))
        try:
            made = split_by_language(cuts, folder)
            units = ("<eos>", "<unk>", "a", "b")
            tokenizer = Tokenizer("char", units, dict.fromkeys(made, (1, 1, 1, 1)))
            tokenizer.save(Path(place) / "tokens.json")
            _find_inventories(FolderCorpus(), list(made), Path(place) / "tokens.json", folder)
        except ArborvoxError:
            made = {}
        files = {file for file in Path(place).rglob("*") if file.is_file()}
        assert files - {cuts, Path(place) / "tokens.json"} >= set(made.values())
        assert all(file.parent == folder for file in files if file.suffix == ".txt")
        assert len({str(path).lower() for path in made.values()}) == len(made)


@examples(20, 2000)
@given(names)
def test_a_table_with_any_language_writes_in_its_folder_alone(code: str) -> None:
    with tempfile.TemporaryDirectory() as place:
        table, out = Path(place) / "t.jsonl", Path(place) / "out"
        table.write_text(json.dumps({"path": "a.wav", "text": "a", "language": code}) + "\n")
        config = FolderCorpus(source=str(table))
        with pytest.raises(ArborvoxError):  # there is no a.wav
            prepare(config, out, jobs=1)
        assert all(file == table or file.is_relative_to(out) for file in Path(place).iterdir())


@examples(100, 2000)
@given(names)
def test_a_manifest_with_any_language_gives_sentences_or_one_sentence(code: str) -> None:
    with tempfile.TemporaryDirectory() as place:
        cuts = Path(place) / "cuts.jsonl.gz"
        with gzip.open(cuts, "wt") as file:
            file.write(json.dumps({"supervisions": [{"text": "a", "language": code}]}) + "\n")
        try:
            found = [sentence.language for sentence in TextCorpus([cuts])]
        except ArborvoxError as error:
            assert "line 1" in str(error)
        else:
            assert found == [code or "und"]


def test_an_experiment_from_elsewhere_cannot_name_files_outside(tmp_path: Path) -> None:
    from arborvox.report.experiment import Experiment, ModelEntry, RunEntry, load_experiment

    for place in ("../../secret", "/etc/passwd", "runs/../../x"):
        run = RunEntry(0, place, None, {}, {}, {})
        model = ModelEntry("a", "a", {}, None, (run,))
        Experiment(
            "x", "", (0,), 1, 0, 0, "", {}, "stats.json", "tokens.json", None, (model,)
        ).save(tmp_path)
        with pytest.raises(ArborvoxError, match="cannot be the name"):
            load_experiment(tmp_path)


def test_two_spellings_of_one_code_are_one_language() -> None:
    with pytest.raises(ArborvoxError, match="pt-BR and pt-br are one language"):
        check_languages(["pt-BR", "es", "pt-br"], "t.csv")
