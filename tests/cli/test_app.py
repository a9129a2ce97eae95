"""The app itself: version, help, and errors that are one sentence."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from arborvox.cli import main
from arborvox.tree import HuffmanTree, save_tree
from arborvox.version import VERSION


def run(*words: str) -> int:
    with pytest.raises(SystemExit) as left:
        main(list(words))
    code = left.value.code
    return code if isinstance(code, int) else 0


def test_version_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--version") == 0
    assert capsys.readouterr().out.strip() == f"arborvox {VERSION}"


def test_help_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--help") == 0
    shown = capsys.readouterr().out
    for command in ("run", "prepare", "tree", "train", "decode", "score", "transcribe", "doctor"):
        assert command in shown


def test_an_error_is_one_sentence_and_exit_code_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    missing = tmp_path / "none.yaml"
    assert run("config", "show", str(missing)) == 2
    shown = capsys.readouterr()
    assert shown.err.strip() == f"error: There is no recipe {missing}."
    assert shown.out == ""


def test_traceback_shows_on_demand_wherever_the_flag_stands(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("config", "show", str(tmp_path / "none.yaml"), "--traceback") == 2
    assert "Traceback" in capsys.readouterr().err


def test_quiet_and_verbose_exclude_each_other(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("doctor", "--quiet", "--verbose") == 2
    assert "exclude each other" in capsys.readouterr().err


def test_a_bug_is_told_apart_from_a_mistake(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken() -> None:
        raise ZeroDivisionError("by zero")

    monkeypatch.setattr("arborvox.doctor.examine", broken)
    assert run("doctor") == 1
    assert "fault of arborvox itself (ZeroDivisionError: by zero)" in capsys.readouterr().err


def test_config_show_reads_what_variants_set(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text("variants: [{name: wide, set: {model.widht: 256}}]\n")
    assert run("config", "show", str(recipe)) == 2
    told = capsys.readouterr().err
    assert "variant wide" in told and "did you mean model.width" in told


def test_config_show_resolves_the_whole(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    recipe = tmp_path / "r.yaml"
    recipe.write_text("tree: {kind: balanced}\n")
    assert run("config", "show", str(recipe), "--set", "tree.seed=3") == 0
    shown = capsys.readouterr().out
    assert "kind: balanced" in shown
    assert "seed: 3" in shown
    assert "corpus:" in shown


def test_doctor_says_what_things_mean(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("doctor") == 0
    shown = capsys.readouterr().out
    for word in ("cores", "memory", "bf16", "CUDA", "torch", "audio", "extra demo"):
        assert word in shown


def test_a_terminal_that_knows_few_letters_is_no_fault(tmp_path: Path) -> None:
    tree = tmp_path / "tree.json"
    save_tree(HuffmanTree.from_counts([3, 2, 1], ["<eos>", " ", "ш"]), tree)
    done = subprocess.run(
        [sys.executable, "-m", "arborvox", "tree", "show", str(tree)],
        env={**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "\\u0448" in done.stdout
