"""Work for several processes: a tiny model, recordings, and the commands that share them."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import soundfile
from checkpoints import make_checkpoint
from lhotse import CutSet
from tiny_corpus import PHONES, make_cut, tone

COMMAND = Path(__file__).with_name("team_command.py")
SEARCH = ["--mode", "ctc-beam", "--precision", "fp32", "--batch-s", "2"]


@dataclass(frozen=True)
class Speech:
    """A model and what it is to read."""

    run: Path
    manifest: Path
    audio: Path


def make_speech(folder: Path) -> Speech:
    """Write a model and recordings of unlike lengths."""
    run = make_checkpoint(folder / "run", units=("<eos>", "<unk>", *PHONES), unit="phone")
    chance = np.random.default_rng(0)
    audio = folder / "audio"
    audio.mkdir()
    cuts = []
    for number in range(12):
        phones = [str(p) for p in chance.choice(PHONES, 2 + number % 5)]
        path = audio / f"u{number:02d}.wav"
        soundfile.write(path, np.concatenate([tone(p, chance) for p in phones]), 16000)
        cuts.append(make_cut(path, " ".join(phones), "x-x"))
    CutSet.from_cuts(cuts).to_file(folder / "cuts.jsonl.gz")
    return Speech(run, folder / "cuts.jsonl.gz", audio)


def torchrun(processes: int, *arguments: str, restarts: int = 0) -> list[str]:
    """Return what follows `python` to run a command in several processes."""
    launch = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={processes}"]
    return [*launch, f"--max-restarts={restarts}", *arguments]


def all_commands(speech: Speech, out: Path) -> list[str]:
    """Decode, transcribe and align into a folder."""
    run, manifest = str(speech.run), str(speech.manifest)
    return [
        str(COMMAND),
        *("decode", run, manifest, "--out", f"{out}/hyps.jsonl", *SEARCH),
        *("--", "transcribe", run, str(speech.audio), "--out", f"{out}/texts", *SEARCH),
        *("--format", "json"),
        *("--", "align", run, manifest, "--out", f"{out}/aligned", "--precision", "fp32"),
        *("--format", "ctm"),
    ]


def results_of(out: Path) -> dict[str, bytes]:
    """Return the files that the commands have made, but for how long it took."""
    return {
        str(path.relative_to(out)): path.read_bytes()
        for path in sorted(out.rglob("*"))
        if path.is_file() and path.suffix != ".lock" and not path.name.endswith(".timing.json")
    }
