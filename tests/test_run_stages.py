"""Laws of a stage: done once, done again when something changed, never lost."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from arborvox.errors import ArborvoxError
from arborvox.pipeline.fingerprints import digest_source
from arborvox.pipeline.stages import Stage, look_at, run_stage


class Copying:
    """A stage that copies its input and counts how often it is asked to."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.source = root / "input.txt"
        self.source.write_text("one")
        self.times = 0

    def stage(self, **more: Any) -> Stage:
        settings = more.pop("settings", {"a": {"b": 1}})
        return Stage(
            "copy",
            self.root / "stage",
            settings,
            self.work,
            outputs=("out.txt",),
            inputs={"input": self.source},
            **more,
        )

    def work(self, folder: Path) -> None:
        self.times += 1
        (folder / "out.txt").write_text(self.source.read_text())

    def run(self, **more: Any) -> bool:
        """Do the stage if it needs to be done; say whether it did."""
        stage = self.stage(**more)
        standing = look_at(stage)
        if not standing.fresh:
            run_stage(stage, standing, self.root)
        return not standing.fresh


@pytest.fixture
def copying(tmp_path: Path) -> Copying:
    return Copying(tmp_path)


def test_a_stage_is_done_once(copying: Copying) -> None:
    assert [copying.run() for _ in range(3)] == [True, False, False]
    assert copying.times == 1


def test_changed_input_or_setting_does_it_again(copying: Copying) -> None:
    copying.run()
    copying.source.write_text("two")
    assert copying.run()
    assert (copying.root / "stage/out.txt").read_text() == "two"
    assert copying.run(settings={"a": {"b": 2}})
    assert look_at(copying.stage()).changed == ("settings.a.b",)


def test_work_that_gives_another_result_than_before_is_done_again(copying: Copying) -> None:
    copying.run()
    assert copying.run(version=2)
    assert not copying.run(version=2)
    assert look_at(copying.stage()).changed == ("version",)


def test_the_same_content_written_again_is_no_change(copying: Copying) -> None:
    copying.run()
    copying.source.unlink()
    copying.source.write_text("one")
    assert not copying.run()


def test_a_lost_or_edited_output_is_made_again(copying: Copying) -> None:
    copying.run()
    (copying.root / "stage/out.txt").unlink()
    assert copying.run()
    (copying.root / "stage/out.txt").write_text("edited")
    assert copying.run()
    assert (copying.root / "stage/out.txt").read_text() == "one"


def test_an_edited_output_is_not_built_upon(copying: Copying) -> None:
    """What a stage continues must be its own work; what took long mends itself."""
    copying.run()
    (copying.root / "stage/half.txt").write_text("half")
    (copying.root / "stage/out.txt").write_text("edited")
    assert copying.run()
    assert not (copying.root / "stage/half.txt").exists()
    (copying.root / "stage/state.txt").write_text("state")
    (copying.root / "stage/out.txt").unlink()
    assert copying.run(precious=True)
    assert (copying.root / "stage/state.txt").exists()


def test_a_copied_folder_is_still_whole(copying: Copying) -> None:
    copying.run()
    shutil.move(copying.root / "stage", copying.root / "moved")
    shutil.copytree(copying.root / "moved", copying.root / "stage", copy_function=shutil.copy)
    assert not copying.run()


def test_a_stage_that_died_goes_on_where_it_was(copying: Copying) -> None:
    def die(folder: Path) -> None:
        (folder / "half.txt").write_text("half")
        raise KeyboardInterrupt

    stage = copying.stage()
    object.__setattr__(stage, "work", die)
    with pytest.raises(KeyboardInterrupt):
        run_stage(stage, look_at(stage), copying.root)
    shutil.copytree(copying.root / "stage", copying.root / "elsewhere" / "stage")
    assert copying.run()
    assert (copying.root / "stage/half.txt").exists()
    copying.root /= "elsewhere"
    assert copying.run()
    assert not (copying.root / "stage/half.txt").exists()


def test_starting_over_leaves_nothing_of_the_old(copying: Copying) -> None:
    copying.run()
    (copying.root / "stage/old.txt").write_text("old")
    copying.run(settings={"a": {"b": 2}})
    assert not (copying.root / "stage/old.txt").exists()


def test_what_is_precious_is_set_aside(copying: Copying) -> None:
    for value in (1, 2, 3):
        copying.run(settings={"a": {"b": value}}, precious=True)
    aside = sorted(path.name for path in (copying.root / "set-aside").iterdir())
    assert aside == ["stage-1", "stage-2"]
    assert (copying.root / "set-aside/stage-1/out.txt").exists()


def test_a_free_setting_goes_on_in_place(copying: Copying) -> None:
    copying.run(precious=True)
    (copying.root / "stage/state.txt").write_text("state")
    assert copying.run(settings={"a": {"b": 2}}, free=frozenset({"a.b"}), precious=True)
    assert (copying.root / "stage/state.txt").exists()


def test_what_went_too_far_starts_over(copying: Copying) -> None:
    copying.run(precious=True)
    allowed = {"settings": {"a": {"b": 2}}, "free": frozenset({"a.b"}), "precious": True}
    assert copying.run(**allowed, outgrown=lambda folder: (folder / "out.txt").exists())
    assert (copying.root / "set-aside/stage-1/out.txt").exists()


def test_a_stage_without_its_outputs_is_an_error(copying: Copying) -> None:
    stage = copying.stage()
    object.__setattr__(stage, "work", lambda folder: None)
    with pytest.raises(ArborvoxError, match=r"ended without out\.txt"):
        run_stage(stage, look_at(stage), copying.root)


def test_a_corpus_is_another_when_a_table_changes_or_a_recording_comes(tmp_path: Path) -> None:
    (tmp_path / "clips").mkdir()
    (tmp_path / "clips/a.wav").write_bytes(b"1")
    (tmp_path / "table.tsv").write_text("x")
    marks = [digest_source(tmp_path), digest_source(tmp_path)]
    (tmp_path / "table.tsv").write_text("xy")
    marks.append(digest_source(tmp_path))
    (tmp_path / "clips/b.wav").write_bytes(b"2")
    marks.append(digest_source(tmp_path))
    assert marks[0] == marks[1]
    assert len(set(marks)) == 3


def test_a_link_to_nowhere_is_part_of_a_corpus_like_any_file(tmp_path: Path) -> None:
    (tmp_path / "corpus").mkdir()
    (tmp_path / "corpus/old").symlink_to(tmp_path / "gone")
    mark = digest_source(tmp_path / "corpus")
    assert digest_source(tmp_path / "corpus") == mark
    (tmp_path / "gone").write_text("there again")
    assert digest_source(tmp_path / "corpus") != mark
