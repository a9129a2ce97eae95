"""How late a word is shown, as benchmarks/live_text.py counts it."""

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))
from live_delays import Word, found_words, note_delays
from spoken_words import Talk


@pytest.mark.parametrize(
    ("draft", "finished", "found"),
    [
        ("", "a b", []),
        ("a", "a b a", [0]),  # the second one is still to come
        ("a b a", "a b a", [0, 1, 2]),
        ("x b", "a b", [1]),
        ("a x b", "ax b", [1]),  # a word that is split moves no other
        ("a b x y", "a b", [0, 1]),
        ("b a", "a b", [0]),  # not both: they are in another order
    ],
)
def test_words_are_found_in_their_order(draft: str, finished: str, found: list[int]) -> None:
    assert sorted(found_words(draft.split(), finished.split())) == found


def test_three_readings_of_late() -> None:
    """Of the three spoken words the second is taken back, and the third is heard as two."""
    talk = Talk(np.zeros(0, np.int16), ((0.0, 1.0), (1.0, 2.0), (2.0, 3.0)))
    words = [Word("ab", 0.1, 0.9), Word("cd", 1.1, 1.9), Word("e", 2.1, 2.4), Word("f", 2.5, 2.9)]
    shown = [
        (1.1, "xy"),
        (1.5, "ab c"),
        (2.1, "ab cd"),
        (2.5, "ab xd e"),
        (3.2, "ab cd e g"),
        (3.5, "ab cd e f"),
    ]
    delays = note_delays(talk, words, shown)
    assert delays.letters_s == pytest.approx([0.1, 0.1, 0.2])
    assert delays.first_s == pytest.approx([0.5, 0.1, 0.5])
    assert delays.stays_s == pytest.approx([0.5, 1.2, 0.5])
