"""Sets that came out empty, each told with its cause and a remedy."""

import math

from arborvox.config import CorpusConfig
from arborvox.config.corpus import WrittenCorpus
from arborvox.corpora.manifests import NOT_SAMPLED_REASON, SENTENCE_REASON, CorpusStats
from arborvox.corpora.sampling import DEV_SHARE, TEST_SHARE

SHARES = {"dev": DEV_SHARE, "test": TEST_SHARE}
NAMES = {"dev": "development", "test": "test"}


def empty_sets(stats: CorpusStats, config: CorpusConfig) -> list[str]:
    """Say of each held-out set that has no utterance why it has none, and what to do."""
    return [
        f"the {NAMES[split]} set is empty: {_cause(split, stats, config)}."
        for split in SHARES
        if not stats.utterances(split)
    ]


def _cause(split: str, stats: CorpusStats, config: CorpusConfig) -> str:
    known = config.cause_of_empty(split)
    if known:
        return known
    drawn_from = sum(stats.utterances(name) for name in ("train", "dev", "test"))
    drawn_from += sum(stats.skipped.get(why, 0) for why in (SENTENCE_REASON, NOT_SAMPLED_REASON))
    share = SHARES[split]
    if split == "dev" and isinstance(config, WrittenCorpus):
        share = config.dev_share
    if int(drawn_from * share) == 0:
        return (
            f"{share:.0%} of {drawn_from} is less than one utterance; "
            f"add recordings, {math.ceil(1 / share)} of a language are the fewest"
        )
    return (
        f"no language has {math.ceil(1 / share)} utterances of enough speakers and sentences; "
        "add recordings, or draw utterances with --split utterance"
    )
