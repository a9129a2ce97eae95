"""Which of a user's recordings are for training and which are held out."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from arborvox.config import FolderCorpus, OwnCorpus
from arborvox.console import say, warn
from arborvox.corpora.given_sets import is_split, no_split
from arborvox.corpora.kept_split import KeptSplit
from arborvox.corpora.manifests import Skipped
from arborvox.corpora.rows import Row
from arborvox.corpora.sampling import (
    DEV,
    DEV_MOST,
    NOT_DRAWN,
    TEST,
    TEST_QUOTA,
    TRAIN,
    Quota,
    cut_from_training,
    dense_ids,
    language_rng,
    split_by_speaker,
    split_randomly,
)
from arborvox.corpora.tables import clip
from arborvox.errors import ArborvoxError
from arborvox.manifest import SPLIT_NAMES, Utterance

IntArray = npt.NDArray[np.int64]

# Fewer speakers, or recordings, than this cannot be shared out over three sets.
FEWEST_GROUPS = 3
# With fewer, whole speakers would take too much of the voices, or of the speech, from training.
ENOUGH_SPEAKERS = 8


def settle_given(rows: list[Row], config: FolderCorpus, skipped: list[Skipped]) -> list[Row]:
    """Keep the rows of a corpus's own split, or forget it where it is none or not to be used.

    Rows of no set are left out.
    """
    whole = is_split(row.given for row in rows)
    if config.split == "given" and rows and not whole:
        raise no_split(Path(config.source or ""), config, (row.called for row in rows))
    if config.split not in ("auto", "given") or not whole:
        return [replace(row, given=None) for row in rows]
    for row in rows:
        if row.given is None:
            skipped.append(Skipped(row.shown, f"no set of that name: {clip(row.called) or 'none'}"))
    return [row for row in rows if row.given is not None]


def split_utterances(
    utterances: Sequence[Utterance],
    given: dict[str, str],
    config: OwnCorpus,
    kept: KeptSplit | None = None,
) -> IntArray:
    """Return a split code for each utterance; `given` has the set of each id that has one."""
    if kept is not None:
        return _keep(utterances, given, config, kept)
    codes = np.zeros(len(utterances), dtype=np.int64)
    if given and isinstance(config, FolderCorpus):  # no other kind has sets of its own
        codes[:] = [SPLIT_NAMES.index(given[utterance.id]) for utterance in utterances]
        say("split: the corpus's own")
        _cut_missing(codes, utterances, config)
        return codes
    for language, rows in _by_language(utterances):
        codes[rows] = _split_language(language, [utterances[i] for i in rows], config)
    return codes


def thin_out(
    codes: IntArray, utterances: Sequence[Utterance], minutes: float, seed: int
) -> IntArray:
    """Keep so many minutes of each language's training utterances, at least one utterance.

    Utterances are drawn in one order, so that what a minute keeps an hour keeps too.
    """
    thinned = codes.copy()
    for language, rows in _by_language(utterances):
        training = rows[codes[rows] == TRAIN]
        order = language_rng(seed, f"{language}/minutes").permutation(training)
        ends_s = np.cumsum([utterances[row].duration_s for row in order])
        room = max(int(np.searchsorted(ends_s, 60.0 * minutes, side="right")), 1)
        thinned[order[room:]] = NOT_DRAWN
    return thinned


def _split_language(language: str, utterances: Sequence[Utterance], config: OwnCorpus) -> IntArray:
    """Split one language by the rule that is asked for, or by the one that fits."""
    speakers, texts = _number_both(utterances)
    recordings = _number([utterance.audio for utterance in utterances])
    known = {utterance.speaker for utterance in utterances}
    num_known = len(known - {None})
    rule = config.split
    if rule == "auto":
        rule = "speaker" if None not in known and num_known >= ENOUGH_SPEAKERS else "sentence"
        _tell_rule(language, rule, num_known, all_known=None not in known)
    if rule == "recording" and recordings.max() + 1 < FEWEST_GROUPS:
        rule = "sentence"
        warn(
            f"{language}: fewer than {FEWEST_GROUPS} recordings, so the split is by sentence and "
            "the test set has voices that were trained on."
        )
    rng, dev = language_rng(config.seed, language), dev_quota(config)
    if rule == "utterance":
        return split_randomly(len(utterances), rng, dev=dev)
    if rule == "sentence":  # each sentence its own group: no sentence on two sides
        return split_by_speaker(texts, texts, rng, dev=dev)
    if rule == "recording":
        return split_by_speaker(recordings, texts, rng, dev=dev)
    if None in known or num_known < FEWEST_GROUPS:
        lacking = "some utterances have no speaker" if None in known else f"{num_known} speakers"
        default = type(config).model_fields["split"].default
        raise ArborvoxError(
            f"corpus.split: speaker needs {FEWEST_GROUPS} known speakers, but of {language} "
            f"{lacking}; use sentence, or {default}."
        )
    return split_by_speaker(speakers, texts, rng, dev=dev)


def dev_quota(config: OwnCorpus) -> Quota:
    """Return how much goes into a development set that is drawn."""
    return Quota(config.dev_share, DEV_MOST)


def _tell_rule(language: str, rule: str, num_known: int, *, all_known: bool) -> None:
    if rule == "speaker":
        say(f"{language}: split by speaker: no speaker and no sentence is on two sides")
        return
    count = f"{num_known} speaker{'' if num_known == 1 else 's'}, fewer than {ENOUGH_SPEAKERS}"
    why = count if all_known else "not every speaker is known"
    hint = "; --split speaker keeps voices apart" if num_known >= FEWEST_GROUPS else ""
    say(
        f"{language}: {why}, so the split is by sentence and the test set has voices that were "
        f"trained on{hint}"
    )


def _cut_missing(codes: IntArray, utterances: Sequence[Utterance], config: FolderCorpus) -> None:
    """Cut the held-out sets that a given split lacks from its training set."""
    for side, quota in ((TEST, TEST_QUOTA), (DEV, dev_quota(config))):
        if (codes == side).any():
            continue
        for language, rows in _by_language(utterances):
            training = rows[codes[rows] == TRAIN]
            speakers, texts = _number_both([utterances[i] for i in training])
            groups = speakers if config.cut_by == "speaker" else texts
            rng = language_rng(config.seed, f"{language}/{SPLIT_NAMES[side]}")
            codes[training] = cut_from_training(groups, texts, rng, quota, side)
        say(
            f"the corpus has no {SPLIT_NAMES[side]} set: {int(np.sum(codes == side)):,} utterances "
            f"are cut from training for it, by {config.cut_by}"
        )


def _keep(
    utterances: Sequence[Utterance], given: dict[str, str], config: OwnCorpus, kept: KeptSplit
) -> IntArray:
    """Leave utterances in the sets they were in; new ones are for training, or left out."""
    codes, new = kept.place(utterances, given, by_recording=config.split == "recording")
    in_training = int(np.sum(codes[new] == TRAIN))
    say(
        f"split kept from {kept.path}: {len(codes) - int(new.sum()):,} utterances; of "
        f"{int(new.sum()):,} new ones {in_training:,} are for training"
    )
    gone = kept.gone(utterances)
    if gone:
        warn(
            f"{len(gone):,} utterances of {kept.path} are not in the corpus any more, "
            f"{clip(gone[0])} for one: what was held out is not quite the same."
        )
    return codes


def _by_language(utterances: Sequence[Utterance]) -> list[tuple[str, IntArray]]:
    """Return the places of each language's utterances."""
    languages = np.array([utterance.language for utterance in utterances], dtype=object)
    return [(name, np.flatnonzero(languages == name)) for name in sorted(set(languages))]


def _number_both(utterances: Sequence[Utterance]) -> tuple[IntArray, IntArray]:
    """Number speakers and sentences."""
    speakers = _number([utterance.speaker or "" for utterance in utterances])
    return speakers, _number([utterance.text for utterance in utterances])


def _number(keys: list[str]) -> IntArray:
    numbers: dict[str, int] = {}
    return dense_ids(np.array([numbers.setdefault(key, len(numbers)) for key in keys], np.int64))
