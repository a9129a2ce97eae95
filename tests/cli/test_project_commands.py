"""The commands of a project, from recordings to what is withdrawn."""

from pathlib import Path

import pytest
from made_up_project import confirm, make_recordings

from arborvox.cli import main
from arborvox.project import Project


def run(*words: object) -> int:
    """Run a command; return its exit code."""
    try:
        main([str(word) for word in words])
    except SystemExit as left:
        return int(left.code or 0)
    return 0


def test_a_project_is_made_shown_and_what_is_withdrawn_is_gone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make_recordings(tmp_path / "brought", number=2)
    folder = tmp_path / "project"
    assert run("project", "add", folder, tmp_path / "brought") == 2
    assert "give --language" in capsys.readouterr().err and not folder.exists()
    assert run("project", "add", folder, tmp_path / "brought", "--language", "x-a") == 0
    assert "6 recordings added, cut into 6 utterances" in capsys.readouterr().err
    project = Project.open(folder)
    confirm(project, project.items()[0], "a b")
    assert run("project", "show", folder) == 0
    assert "confirmed: 1" in capsys.readouterr().out
    assert run("project", "withdraw", folder, "--speaker", "nobody") == 2
    assert "has no speaker 'nobody'" in capsys.readouterr().err
    assert run("project", "withdraw", folder, "--speaker", "ivo") == 0
    assert "withdrawn: 2 recordings" in capsys.readouterr().err
    assert len(project.items()) == 4


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ((), "0 confirmed utterances to learn from are too few"),
        (("--accept",), "no model is offered"),
        (("--go-back",), "no other model was in use"),
        (("--accept", "--go-back"), "exclude each other"),
    ],
)
def test_what_cannot_be_learned_is_told(
    words: tuple[str, ...], told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make_recordings(tmp_path / "brought", number=1)
    folder = tmp_path / "project"
    assert run("project", "add", folder, tmp_path / "brought", "--language", "x-a") == 0
    assert run("learn", folder, *words) == 2
    assert told in capsys.readouterr().err


def test_a_folder_that_is_no_project_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for command in ("project show", "project draft", "learn"):
        assert run(*command.split(), tmp_path) == 2
        assert "is no project" in capsys.readouterr().err
