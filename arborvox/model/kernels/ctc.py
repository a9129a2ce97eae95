"""The CTC loss on a CPU in float32: the two recursions over states, 16 states at a time.

torch's own calls exp and log of the C library for one state after the other.
"""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.autograd.function import Function, once_differentiable

from arborvox.kernels.compiling import exact_kernel, kernel
from arborvox.kernels.gate_math import LEAST_EXPONENT, exp_float32, gate_terms_float32
from arborvox.kernels.threads import run_split

# Stands for log 0: sums of it stay finite, so that their differences are numbers.
NEVER = np.float32(-1e30)
# No path's log-probability comes near this.
IMPOSSIBLE = np.float32(-1e29)
# Fewer utterances than this are not worth waking a thread for.
UTTERANCES_PER_THREAD = 1


class CTCLoss(Function):
    """Compute -log P of each utterance: (B, T, V + 1), (B, U), (B,), (B,) -> (B,); 0 for no path.

    The gradient is that of the log-probabilities as they are given: minus the posterior of a token
    at a frame, which is the share of paths that pass through it there.
    """

    @staticmethod
    def forward(
        ctx: Any,
        log_probs: Tensor,
        tokens: Tensor,
        frame_lens: Tensor,
        token_lens: Tensor,
        blank: int,
    ) -> Tensor:
        log_probs = log_probs.contiguous()
        B, T, _ = log_probs.shape
        rows, frame_counts = log_probs.detach().numpy(), frame_lens.numpy()
        labels, skips = _states(tokens.numpy(), blank)
        state_counts = 2 * token_lens.numpy() + 1
        alphas = torch.empty(B, T, labels.shape[1])  # forward variables: log of all ways to begin
        losses = torch.empty(B)
        wide_alphas, wide_losses = alphas.numpy(), losses.numpy()
        run_split(
            lambda first, last: _run_forward(
                rows[first:last],
                labels[first:last],
                skips[first:last],
                frame_counts[first:last],
                state_counts[first:last],
                wide_alphas[first:last],
                wide_losses[first:last],
            ),
            B,
            UTTERANCES_PER_THREAD,
        )
        ctx.save_for_backward(log_probs, alphas, losses)
        ctx.states = labels, skips, frame_counts, state_counts
        possible = ~(losses > -float(IMPOSSIBLE))  # written so that NaN stays NaN
        return torch.where(possible, losses, torch.zeros(()))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None, None, None]:
        log_probs, alphas, losses = ctx.saved_tensors
        labels, skips, frame_counts, state_counts = ctx.states
        gradients = torch.zeros_like(log_probs)
        arrays = (
            log_probs.numpy(),
            labels,
            skips,
            frame_counts,
            state_counts,
            alphas.numpy(),
            losses.numpy(),
            grad.contiguous().numpy(),
            gradients.numpy(),
        )
        run_split(
            lambda first, last: _run_backward(*(array[first:last] for array in arrays)),
            len(log_probs),
            UTTERANCES_PER_THREAD,
        )
        return gradients, None, None, None, None


def _states(tokens: NDArray[np.int64], blank: int) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Return each state's token (B, 2U + 1), blanks between, and what it costs to skip a blank."""
    B, U = tokens.shape
    labels = np.full((B, 2 * U + 1), blank, np.int64)
    labels[:, 1::2] = np.maximum(tokens, 0)
    skips = np.full((B, 2 * U + 1), NEVER, np.float32)
    skips[:, 3::2] = np.where(labels[:, 3::2] == labels[:, 1:-2:2], NEVER, 0.0)
    return labels, skips


@exact_kernel
def _log_sum(x: Any, y: Any) -> Any:
    """Return log(exp(x) + exp(y))."""
    return max(x, y) + gate_terms_float32(x - y)[0]


@kernel
def _advance(stay: Any, step: Any, skip: Any, skips: Any, out: Any) -> None:
    """Fill out with the log-sum of what stays in a state, steps into it, or skips a blank."""
    for s in range(out.size):
        out[s] = _log_sum(_log_sum(stay[s], step[s]), skip[s] + skips[s])


@kernel
def _run_forward(
    log_probs: Any,
    labels: Any,
    skips: Any,
    frame_counts: Any,
    state_counts: Any,
    alphas: Any,
    losses: Any,
) -> None:
    """Fill the forward variables, and losses with -log P, 1e30 where there is no path."""
    for b in range(log_probs.shape[0]):
        T, S = frame_counts[b], state_counts[b]
        label, skip = labels[b, :S], skips[b, :S]
        before = np.full(S + 2, NEVER, np.float32)  # two states that nothing ever is in, first
        for t in range(T):
            now, row = alphas[b, t, :S], log_probs[b, t]
            if t == 0:
                now[:] = NEVER
                now[:2] = np.float32(0.0)  # a path begins with the first blank or token
            else:
                _advance(before[2:], before[1 : S + 1], before[:S], skip, now)
            for s in range(S):
                now[s] += row[label[s]]
            before[2:] = now
        losses[b] = -_log_sum(before[S + 1], before[S] if S > 1 else NEVER)


@kernel
def _run_backward(
    log_probs: Any,
    labels: Any,
    skips: Any,
    frame_counts: Any,
    state_counts: Any,
    alphas: Any,
    losses: Any,
    grads: Any,
    gradients: Any,
) -> None:
    """Take each state's posterior, times the loss's gradient, from the gradients (B, T, V + 1)."""
    for b in range(log_probs.shape[0]):
        T, S = frame_counts[b], state_counts[b]
        if losses[b] > -IMPOSSIBLE:
            continue
        label = labels[b, :S]
        # Of the state two further on: whether it can be reached from here without its blank.
        skip = np.full(S, NEVER, np.float32)
        skip[: S - 2] = skips[b, 2:S]
        after = np.full(S + 2, NEVER, np.float32)  # emission and all that follows it, by state
        beta, posteriors = np.empty(S, np.float32), np.empty(S, np.float32)
        for step in range(T):
            t = T - 1 - step
            alpha, row, gradient = alphas[b, t], log_probs[b, t], gradients[b, t]
            if step == 0:
                beta[:] = NEVER
                beta[max(0, S - 2) :] = np.float32(0.0)
            else:
                _advance(after[:S], after[1 : S + 1], after[2:], skip, beta)
            for s in range(S):
                exponent = alpha[s] + beta[s] + losses[b]
                posterior = exp_float32(max(exponent, LEAST_EXPONENT))
                posteriors[s] = np.float32(0.0) if exponent < LEAST_EXPONENT else posterior
            for s in range(S):
                gradient[label[s]] -= grads[b] * posteriors[s]
                after[s] = beta[s] + row[label[s]]
