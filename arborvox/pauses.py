"""Speech without its pauses, for a network that does not know yet what silence is.

CTC's first guess is that letters are spread evenly over a recording. A second of silence before the
first word and a pause in the middle make it wrong everywhere, and the network learns what silence
is only with the letters. `--vad` of `transcribe` is something else: it cuts recordings for people.
"""

import torch
from torch import Tensor
from torch.nn import functional

QUIETER_THAN = 0.4  # of the way from an utterance's quietest frames to its loudest
EXTREMES = (0.05, 0.95)  # shares of frames that are quieter
KEPT_S = 0.12  # of a pause, before and after speech
FRAMES_A_TOKEN = 6  # at least; CTC needs four, one state, and sometimes a blank


def leave_out_pauses(features: Tensor, frame_s: float, num_tokens: int) -> Tensor:
    """Return the frames (T, M) in which somebody speaks, and a little around them.

    Where too few would be left for the tokens, all of them are returned.
    """
    loudness = features.float().mean(dim=1)  # log powers
    quietest, loudest = torch.quantile(loudness, torch.tensor(EXTREMES))
    speech = loudness > quietest + QUIETER_THAN * (loudest - quietest)
    around = max(round(KEPT_S / frame_s), 1)
    width = 2 * around + 1
    near = functional.max_pool1d(speech.float()[None], width, stride=1, padding=around)[0] > 0
    if int(near.sum()) < FRAMES_A_TOKEN * max(num_tokens, 1):
        return features
    return features[near]
