"""What a user's own recordings share, whatever the source: texts to ignore, and their section."""

from pathlib import Path

import pytest
from releases import tone
from test_common_voice import read_skipped

from arborvox.config import CORPUS_SECTIONS, FolderCorpus
from arborvox.config.choices import CorpusKind, values_of
from arborvox.corpora import prepare
from arborvox.corpora.manifests import IGNORED_REASON


@pytest.fixture
def kaldi(tmp_path: Path) -> Path:
    """Forty recordings of two utterances each, all by one speaker."""
    names = [f"r{number:02}" for number in range(40)]
    for name in names:
        tone(tmp_path / f"data/{name}.wav", seconds=2.0)
    write = {
        "wav.scp": [f"{name} {name}.wav" for name in names],
        "segments": [f"{n}-{part} {n} {part} {part + 1}" for n in names for part in (0, 1)],
        "text": [f"{n}-{part} un {word(n)} {word(str(part))}" for n in names for part in (0, 1)],
        "utt2spk": [f"{name}-{part} ana" for name in names for part in (0, 1)],
    }
    write["text"][0] = "r00-0  *** "
    for name, lines in write.items():
        (tmp_path / "data" / name).write_text("".join(f"{line}\n" for line in lines))
    return tmp_path / "data"


def word(name: str) -> str:
    return "".join(chr(ord("a") + ord(c) % 26) for c in name)


def test_texts_to_ignore_are_left_out_on_purpose(kaldi: Path, tmp_path: Path) -> None:
    config = FolderCorpus(source=str(kaldi), language="ca", ignore=("***",))
    prepare(config, tmp_path / "out", jobs=1, strict=True)  # no fault of the corpus
    assert read_skipped(tmp_path / "out")["r00.wav (r00-0)"] == f"{IGNORED_REASON}: ***"


def test_sections_follow_from_their_classes() -> None:
    assert list(CORPUS_SECTIONS) == list(values_of(CorpusKind))
    for kind, section in CORPUS_SECTIONS.items():
        assert section.model_fields["kind"].default == kind
