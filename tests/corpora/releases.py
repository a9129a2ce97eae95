"""Small corpora made on the fly, good and broken."""

from collections.abc import Iterable
from pathlib import Path

import numpy as np
import soundfile

COLUMNS = "client_id path sentence up_votes down_votes age gender accent locale segment".split()


def tone(path: Path, seconds: float = 1.0, rate: int = 16_000, channels: int = 1) -> Path:
    """Write a second of sound in the format that the file's ending says."""
    path.parent.mkdir(parents=True, exist_ok=True)
    time = np.arange(int(seconds * rate)) / rate
    wave = 0.3 * np.sin(2 * np.pi * 440 * time).astype(np.float32)
    soundfile.write(path, np.tile(wave[:, None], (1, channels)), rate)
    return path


def row(speaker: str, path: str, sentence: str, language: str = "ca") -> str:
    return "\t".join([speaker, path, sentence, "2", "0", "", "", "", language, ""])


def write_table(folder: Path, rows: Iterable[str | bytes], name: str = "validated.tsv") -> None:
    folder.mkdir(parents=True, exist_ok=True)
    lines = ["\t".join(COLUMNS), *rows]
    data = b"".join((r if isinstance(r, bytes) else r.encode()) + b"\n" for r in lines)
    (folder / name).write_bytes(data)


def make_release(
    root: Path, languages: Iterable[str] = ("ca", "es"), clips: int = 40, speakers: int = 20
) -> Path:
    """A release whose speakers read two clips each, every sentence once."""
    words = "un dos tres quatre cinc sis set vuit nou deu".split()
    for language in languages:
        rows = []
        for i in range(clips):
            name = f"common_voice_{language}_{i}.flac"
            tone(root / language / "clips" / name, seconds=0.5 + 0.05 * (i % 7))
            sentence = f"{words[i % 10]} {words[i // 10 % 10]} {words[i // 4 % 10]} {language}"
            rows.append(row(f"{language}-speaker-{i % speakers}", name, sentence, language))
        write_table(root / language, rows)
    return root
