"""A model that was tuned keeps its search and its language model, and is searched so by all."""

import gzip
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from checkpoints import make_checkpoint

import arborvox
from arborvox.cli import main
from arborvox.config import DecodeConfig
from arborvox.decode.engine import Engine, load_engine
from arborvox.digests import checksum_file
from arborvox.errors import ArborvoxError
from arborvox.export.exporting import describe
from arborvox.files import read_json, write_json_atomic
from arborvox.model import checkpoint
from arborvox.model.checkpoint import load_checkpoint, save_search

WEIGHTS = {"mode": "joint", "beam": 4, "ctc_weight": 0.6, "lm_weight": 0.7, "length_bonus": 0.9}


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return make_checkpoint(tmp_path / "run", decode={"ctc_weight": 0.2, "length_bonus": 0.1})


@pytest.fixture
def tuned(run: Path, arpa: Path) -> Path:
    save_search(run, DecodeConfig(**WEIGHTS, lm=arpa))
    return run


def _weights(engine: Engine) -> dict[str, Any]:
    return {key: getattr(engine.config, key) for key in WEIGHTS}


def test_what_tune_chose_is_used_where_nothing_else_is_asked_for(
    run: Path, corpus: Path, arpa: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    dev, test = (str(corpus / f"cuts_{split}.jsonl.gz") for split in ("dev", "test"))
    weights = tmp_path / "weights.yaml"
    before = load_checkpoint(run)
    options = ["--lm", str(arpa), "--beam", "4", "--confirm", "1", "--precision", "fp32"]
    _run("tune", str(run), dev, *options, "--out", str(weights), "--apply")
    assert "with the language model" in " ".join(capsys.readouterr().err.split())
    asked = tmp_path / "asked.jsonl"
    section = arborvox.config.load_recipe(weights).decode
    told = [f"--{key.replace('_', '-')}={getattr(section, key)}" for key in (*WEIGHTS, "lm")]
    arpa.rename(arpa.with_name("elsewhere.arpa"))  # the model has its own copy
    own = tmp_path / "own.jsonl"
    _run("decode", str(run), test, "--out", str(own))
    arpa.with_name("elsewhere.arpa").rename(arpa)
    _run("decode", str(run), test, *told, "--out", str(asked))
    own_header, *own_lines = own.read_text(encoding="utf-8").splitlines()
    header, *lines = asked.read_text(encoding="utf-8").splitlines()
    assert own_lines == lines
    settings = json.loads(own_header)["settings"]
    assert Path(settings.pop("lm")).parent == run
    assert settings == {k: v for k, v in json.loads(header)["settings"].items() if k != "lm"}
    # The weights are the same files' as before: nothing was trained.
    assert before.checksums.items() <= load_checkpoint(run).checksums.items()


def _run(*words: str) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(list(words))
    assert not stopped.value.code


def test_a_model_says_what_it_was_tuned_with(tuned: Path) -> None:
    engine = load_engine(tuned, DecodeConfig())
    assert _weights(engine) == WEIGHTS
    assert engine.config.lm == tuned / "lm.arpa.gz"
    assert _weights(load_engine(tuned, DecodeConfig(beam=7))) == {**WEIGHTS, "beam": 7}


@pytest.mark.parametrize(
    "asked",
    [{"mode": "ctc-beam"}, {"mode": "ctc-greedy"}, {"lm_weight": 0.0}, {"lm": None}],
)
def test_weights_of_another_way_to_search_are_the_recipes(
    asked: dict[str, Any], tuned: Path
) -> None:
    engine = load_engine(tuned, DecodeConfig(**asked))
    assert engine.config.lm is None
    assert engine.config.ctc_weight == 0.2
    assert engine.config.length_bonus == (0.0 if asked.get("mode") == "ctc-greedy" else 0.1)


def test_an_engine_that_searches_otherwise_has_the_language_model_or_not(tuned: Path) -> None:
    joint = load_engine(tuned, DecodeConfig())
    greedy = joint.variant(mode="ctc-greedy")
    assert greedy.config.lm is None and greedy._settings.lm is None
    back = greedy.variant(mode="joint")
    assert back._settings.lm is not None
    assert _weights(back) == WEIGHTS


def test_another_language_model_takes_the_recipes_weights(tuned: Path, arpa: Path) -> None:
    engine = load_engine(tuned, DecodeConfig(lm=arpa))
    assert engine.config.lm == arpa
    assert (engine.config.ctc_weight, engine.config.lm_weight) == (0.2, 0.3)


def test_tuning_begins_with_weights_that_fit(tuned: Path) -> None:
    engine = load_engine(tuned, DecodeConfig(lm=None))
    assert engine.weights_now(with_lm=True).length_bonus == 0.9
    # Those belong to the language model: without it the search is the recipe's.
    assert engine.weights_now(with_lm=False).length_bonus == 0.1
    other = load_engine(tuned, DecodeConfig(mode="rescoring", lm=None))
    assert other.weights_now(with_lm=True).length_bonus == 0.1


def test_tuning_again_replaces_what_was_there(tuned: Path, arpa: Path) -> None:
    first = (tuned / "lm.arpa.gz").read_bytes()
    assert gzip.decompress(first) == arpa.read_bytes()
    save_search(tuned, DecodeConfig(**WEIGHTS, lm=tuned / "lm.arpa.gz"))  # its own
    assert (tuned / "lm.arpa.gz").read_bytes() == first
    save_search(tuned, DecodeConfig(mode="ctc-beam", length_bonus=0.5))
    assert not (tuned / "lm.arpa.gz").exists()
    engine = load_engine(tuned, DecodeConfig())
    assert (engine.mode, engine.config.length_bonus, engine.config.lm) == ("ctc-beam", 0.5, None)


def test_a_checkpoint_without_a_search_is_written_as_before(run: Path, arpa: Path) -> None:
    assert read_json(run / "checkpoint.json")["version"] == checkpoint.OLDEST_WRITTEN
    save_search(run, DecodeConfig(**WEIGHTS, lm=arpa))
    assert read_json(run / "checkpoint.json")["version"] == checkpoint.VERSION


def test_a_run_that_goes_on_keeps_the_search(tuned: Path, arpa: Path) -> None:
    make_checkpoint(tuned, seed=2)  # in its place, with other weights
    assert _weights(load_engine(tuned, DecodeConfig())) == WEIGHTS
    assert gzip.decompress((tuned / "lm.arpa.gz").read_bytes()) == arpa.read_bytes()
    write_json_atomic(tuned / "search.json", {"mode": "best"})
    make_checkpoint(tuned, seed=3)
    assert load_checkpoint(tuned).search is None


def test_a_failed_write_leaves_the_model_as_it_was(run: Path, tmp_path: Path) -> None:
    files = {path.name: checksum_file(path) for path in run.iterdir()}
    with pytest.raises(FileNotFoundError):
        save_search(run, DecodeConfig(**WEIGHTS, lm=tmp_path / "no-such.arpa"))
    assert {path.name: checksum_file(path) for path in run.iterdir()} == files
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ([], "does not hold"),
        ({"beam": 4}, "does not hold"),
        ({"mode": "joint", "inventory": "/etc/passwd"}, "does not hold"),
        ({"mode": "joint", "beam": 10**9}, "beam"),
        ({"mode": "best"}, "mode"),
        ({"mode": "ctc-greedy"}, "cannot use a language model"),
    ],
)
def test_a_strangers_search_is_checked(values: object, told: str, tuned: Path) -> None:
    write_json_atomic(tuned / "search.json", values)
    _vouch(tuned, "search.json")
    with pytest.raises(ArborvoxError, match=told) as raised:
        load_engine(tuned, DecodeConfig())
    assert str(tuned) in str(raised.value)


def _vouch(folder: Path, name: str) -> None:
    """Write a file's checksum into the head, as a stranger could."""
    head = read_json(folder / "checkpoint.json")
    head["sha256"][name] = checksum_file(folder / name)
    write_json_atomic(folder / "checkpoint.json", head)


def test_a_changed_or_lost_language_model_is_named(tuned: Path) -> None:
    copied = tuned.with_name("copied")
    shutil.copytree(tuned, copied)
    (copied / "lm.arpa.gz").unlink()
    with pytest.raises(ArborvoxError, match=r"not whole: there is no lm\.arpa\.gz"):
        load_checkpoint(copied)
    (tuned / "lm.arpa.gz").write_bytes(b"other")
    with pytest.raises(ArborvoxError, match=r"lm\.arpa\.gz is damaged or was changed"):
        load_checkpoint(tuned)


def test_a_language_model_that_unpacks_without_end_is_refused(tuned: Path) -> None:
    line = b"-1.0\ta\t-0.2\n"
    bomb = b"\\data\\\nngram 1=9\n\n\\1-grams:\n" + line * 1_000_000 + b"\\end\\\n"
    (tuned / "lm.arpa.gz").write_bytes(gzip.compress(bomb))
    _vouch(tuned, "lm.arpa.gz")
    with pytest.raises(ArborvoxError, match="64 times as large"):
        load_engine(tuned, DecodeConfig())


def test_an_export_leaves_the_language_model_out_and_its_weights(
    tuned: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    described = describe(load_checkpoint(tuned), 400, "fp32", leaves=False, license=None)["decode"]
    assert (described["ctc_weight"], described["length_bonus"]) == (0.2, 0.1)
    assert "language model is left out" in " ".join(capsys.readouterr().err.split())
    save_search(tuned, DecodeConfig(mode="joint", ctc_weight=0.9))
    described = describe(load_checkpoint(tuned), 400, "fp32", leaves=False, license=None)["decode"]
    assert (described["ctc_weight"], described["length_bonus"]) == (0.9, 0.1)


def test_the_first_format_holds_no_search(run: Path) -> None:
    head = read_json(run / "checkpoint.json")
    write_json_atomic(run / "checkpoint.json", {**head, "version": 1})
    with pytest.raises(ArborvoxError, match="first checkpoint format"):
        save_search(run, DecodeConfig(mode="ctc-beam"))
