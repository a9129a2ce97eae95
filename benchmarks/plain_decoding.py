"""The straightforward beam search: one utterance at a time, every prefix read from its start again.

It is what `benchmarks/decoding.py` compares with, and what the tests of the fast searches believe.
"""

import torch
from taking_turns import Pause, go_on
from torch import Tensor

from arborvox.model.asr import ASR
from arborvox.tokens.tokenizer import EOS_ID

Found = tuple[tuple[int, ...], float]


@torch.no_grad()
def plain_attention_beam(
    model: ASR,
    features: Tensor,
    *,
    beam: int,
    max_tokens: int | None = None,
    min_tokens: int = 0,
    pause: Pause = go_on,
) -> list[Found]:
    """Return tokens and log P of the hypotheses in the beam, best first, (T, M)."""
    assert model.decoder is not None
    assert model.output is not None
    encoded, lens = model.encode(features[None], torch.tensor([len(features)]))
    limit = min(int(lens[0]), max_tokens or int(lens[0]))
    live: list[Found] = [((), 0.0)]
    finished: list[Found] = []
    for step in range(limit):
        pause()
        K = len(live)
        inputs = torch.tensor([[EOS_ID, *tokens] for tokens, _ in live])
        states = model.decoder(encoded.expand(K, -1, -1), lens.expand(K), inputs)
        log_probs = model.output.log_probs(states[:, -1])  # (K, V)
        pool = [(score, tokens, True) for tokens, score in finished]
        values, ids = log_probs.topk(min(beam + 1, log_probs.shape[1]), dim=1)
        for (tokens, score), row, places in zip(live, values.tolist(), ids.tolist(), strict=True):
            for value, token in zip(row, places, strict=True):
                if token != EOS_ID:
                    pool.append((score + value, (*tokens, token), False))
                elif step >= min_tokens:
                    pool.append((score + value, tokens, True))
        best = sorted(pool, key=lambda entry: -entry[0])[:beam]
        finished = [(tokens, score) for score, tokens, ended in best if ended]
        live = [(tokens, score) for score, tokens, ended in best if not ended]
        if not live or (finished and finished[0][1] >= live[0][1]):
            break
    return sorted(finished + live, key=lambda found: -found[1])
