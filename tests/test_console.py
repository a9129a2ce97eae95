"""What long work says of itself where no bar can move: lines in a log, far enough apart."""

import pytest

from arborvox.console import LoggedProgress, progress, tell_duration


class Clock:
    """A clock that goes on when it is told to."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_a_log_is_told_now_and_then_how_far_work_has_come(
    capsys: pytest.CaptureFixture[str],
) -> None:
    clock = Clock()
    work = LoggedProgress("decoding", 2000, clock)
    for _ in range(80):
        clock.now += 1
        work.advance(10)
    assert capsys.readouterr().err.splitlines() == [
        "decoding: 300 of 2,000, about 2:50 left",
        "decoding: 600 of 2,000, about 2:20 left",
    ]


def test_work_of_unknown_length_is_counted(capsys: pytest.CaptureFixture[str]) -> None:
    clock = Clock()
    work = LoggedProgress("reading", None, clock)
    clock.now += 31
    work.advance(12)
    assert capsys.readouterr().err == "reading: 12\n"


def test_short_work_says_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with progress("decoding", 3) as advance:
        for _ in range(3):
            advance()
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("seconds", "told"),
    [(0, "0:00"), (7.4, "0:07"), (59.6, "1:00"), (750, "12:30"), (3900, "1:05:00")],
)
def test_durations_are_written_as_people_read_them(seconds: float, told: str) -> None:
    assert tell_duration(seconds) == told
