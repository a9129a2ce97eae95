"""Utterances side by side: how many fit into a batch, padding counted."""

import numpy as np
from numpy.typing import NDArray


def cut_batches(durations_s: NDArray[np.float64], batch_s: float) -> NDArray[np.int64]:
    """Cut sorted durations where (longest x count) would pass `batch_s`; (batches, 2)."""
    cuts = [0]
    while cuts[-1] < len(durations_s):
        begin = cuts[-1]
        most = max(1, int(batch_s / durations_s[begin]))
        ahead = np.maximum.accumulate(durations_s[begin : begin + most])
        cost = ahead * np.arange(1, len(ahead) + 1)
        cuts.append(begin + max(1, int(np.searchsorted(cost, batch_s, side="right"))))
    return np.stack((cuts[:-1], cuts[1:]), axis=1).astype(np.int64)
