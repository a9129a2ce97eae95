"""Speech without its pauses: what is left out, and what never is."""

import torch
from torch import Tensor

from arborvox.pauses import FRAMES_A_TOKEN, leave_out_pauses

FRAME_S = 0.01
AROUND = 12  # frames of a pause that stay on each side


def speech(*stretches: tuple[int, float]) -> Tensor:
    """Frames of so many at such a loudness each, numbered in their first band."""
    loudness = torch.cat([torch.full((length,), level) for length, level in stretches])
    frames = loudness[:, None] + torch.zeros(len(loudness), 80)
    frames[:, 0] = torch.arange(len(loudness)) / 1000
    return frames


def kept(frames: Tensor, num_tokens: int = 1) -> list[int]:
    """Numbers of the frames that are left."""
    left = leave_out_pauses(frames, FRAME_S, num_tokens)
    return [round(1000 * float(number)) for number in left[:, 0]]


def test_long_pauses_shrink_to_a_little_on_both_sides_and_order_stays() -> None:
    frames = speech((100, -12.0), (80, 0.0), (60, -12.0), (40, -1.0), (90, -12.0))
    expected = [*range(88, 192), *range(228, 292)]
    assert kept(frames) == expected


def test_short_pauses_stay_whole() -> None:
    frames = speech((50, 0.0), (2 * AROUND, -12.0), (50, 0.0))
    assert kept(frames) == list(range(len(frames)))


def test_a_level_shift_changes_nothing() -> None:
    """Loud and quiet recordings, and those whose mean was taken off, are cut alike."""
    frames = speech((100, -12.0), (80, 0.0), (100, -12.0))
    shifted = frames + 7.5
    shifted[:, 0] = frames[:, 0]
    assert kept(shifted) == kept(frames) != list(range(len(frames)))


def test_too_little_for_the_tokens_is_not_cut() -> None:
    frames = speech((100, -12.0), (80, 0.0), (100, -12.0))
    left = len(kept(frames))
    assert len(kept(frames, left // FRAMES_A_TOKEN)) == left
    assert len(kept(frames, left // FRAMES_A_TOKEN + 1)) == len(frames)


def test_even_loudness_and_a_single_frame_are_left_alone() -> None:
    frames = torch.zeros(30, 80)
    for some in (frames, frames[:1]):
        assert torch.equal(leave_out_pauses(some, FRAME_S, num_tokens=0), some)
