"""Several corpora as one: the training parts of others join the first one's."""

from pathlib import Path

import langcodes
from langcodes.tag_parser import LanguageTagError

from arborvox.console import say
from arborvox.corpora.manifests import CorpusStats, SplitStats
from arborvox.manifest import SPLIT_NAMES, append_cuts, split_file

TRAIN_CUTS = split_file("train")


def add_training_cuts(stage: Path, stats: CorpusStats, part: CorpusStats, folder: Path) -> None:
    """Append another prepared corpus's training cuts, and count them.

    What the first corpus keeps for testing or development and does not train on must stay unheard,
    so such languages are left out of the other one, whatever code it has for them: `fin` is `fi`.
    """
    unheard = {
        _standard_code(name)
        for name, splits in stats.languages.items()
        if not splits["train"].utterances
    }
    left_out = sorted(name for name in part.languages if _standard_code(name) in unheard)
    if left_out:
        say(f"{part.kind}: {', '.join(left_out)} left out, to stay unheard in training")
    append_cuts(folder / TRAIN_CUTS, stage / TRAIN_CUTS, left_out=left_out)
    added = {name: splits["train"] for name, splits in part.languages.items()}
    for language in left_out:
        del added[language]
    for language, theirs in added.items():
        ours = stats.languages.setdefault(language, {name: SplitStats() for name in SPLIT_NAMES})
        ours["train"].utterances += theirs.utterances
        ours["train"].hours = round(ours["train"].hours + theirs.hours, 6)
        ours["train"].speakers += theirs.speakers
    stats.notes.setdefault("more", []).append(
        {
            "kind": part.kind,
            "folder": folder.name,
            "languages": sorted(added),
            "unheard": left_out,
            "utterances": sum(theirs.utterances for theirs in added.values()),
            "hours": round(sum(theirs.hours for theirs in added.values()), 4),
        }
    )


def _standard_code(language: str) -> str:
    """One code for each language: two letters where there are two, `zh` for `cmn`.

    Relatives within a macrolanguage stay languages of their own: `aeb` is not `ar`.
    """
    try:
        return langcodes.standardize_tag(language, macro=True).split("-")[0]
    except LanguageTagError:
        return language
