"""A corpus that espeak-ng speaks: made as a Common Voice release, then prepared as one."""

from pathlib import Path

from arborvox.config import SyntheticCorpus
from arborvox.corpora.common_voice import prepare_common_voice
from arborvox.corpora.manifests import CorpusStats


def prepare_synthetic(config: SyntheticCorpus, stage: Path, jobs: int) -> CorpusStats:
    """Have the corpus spoken first, then prepare it as the Common Voice folder that it is."""
    from arborvox.corpora.synthetic import SyntheticOptions, synthesize

    assert config.source is not None  # `prepare` names a folder where the options do not
    assert config.languages is not None  # and asks for languages
    options = SyntheticOptions(
        languages=config.languages,
        sentences_per_language=config.sentences,
        speakers=config.speakers,
        text=Path(config.text) if config.text else None,
        names=config.names,
        words=config.words,
        seed=config.seed,
    )
    synthesize(Path(config.source), options, jobs)
    stats = prepare_common_voice(config, stage, jobs)
    stats.kind = "synthetic"
    return stats
