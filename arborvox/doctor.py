"""What the machine offers, and what that means for the user."""

import importlib.util
import os
import platform
import sys
from dataclasses import dataclass
from pathlib import Path

from rich.table import Table

from arborvox.console import show
from arborvox.kernels.devices import UNTRIED_ON_GPU
from arborvox.processes import count_cores
from arborvox.version import VERSION

# Extra of the package → the module it brings → what it is good for.
EXTRAS = {
    "demo": ("espeakng_loader", "synthetic corpora, `make demo`"),
    "formats": ("av", "m4a, webm, wma and other audio formats"),
    "remote": ("aiohttp", "shards of corpora over http"),
    "serve": ("starlette", "`arborvox serve`: an API and a page"),
    "tensorboard": ("tensorboard", "training curves in TensorBoard"),
    "vad": ("silero_vad", "pauses in noisy recordings, `--vad silero`"),
    "triton": ("triton", "H-Softmax kernels on NVIDIA GPUs"),
}


@dataclass(frozen=True)
class Finding:
    """One thing about the machine: what it is, and what follows for the user."""

    name: str
    value: str
    meaning: str
    good: bool = True


def examine() -> list[Finding]:
    """Look at the machine, the libraries and the extras."""
    return [
        Finding("arborvox", VERSION, f"Python {platform.python_version()}, {sys.platform}"),
        _cores(),
        _memory(),
        *_torch(),
        *_audio(),
        *_extras(),
    ]


def show_findings(findings: list[Finding]) -> None:
    """Print the findings as a table."""
    table = Table(show_header=True, box=None, pad_edge=False)
    for title in ("", "what", "is", "which means"):
        table.add_column(title)
    for finding in findings:
        mark = "[green]✓[/green]" if finding.good else "[yellow]–[/yellow]"
        table.add_row(mark, finding.name, finding.value, finding.meaning)
    show(table)
    show("\nNever run on a GPU, for want of one:")
    for item in UNTRIED_ON_GPU:
        show(f"  {item}")


def _cores() -> Finding:
    usable = count_cores()
    meaning = "small models train well" if usable < 8 else "larger models are within reach"
    return Finding("cores", f"{usable} ({platform.machine()})", meaning)


def _memory() -> Finding:
    try:
        total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    except (AttributeError, OSError, ValueError):
        return Finding("memory", "unknown", "watch it yourself while training", good=False)
    enough = total >= 6
    meaning = "enough for size `paper`" if enough else "stay with size `small`"
    return Finding("memory", f"{total:.1f} GiB", meaning, enough)


def _torch() -> list[Finding]:
    try:
        import torch
    except ImportError as error:
        return [Finding("torch", "missing", f"nothing can be trained: {error}", good=False)]
    findings = [Finding("torch", torch.__version__, f"{torch.get_num_threads()} threads")]
    flags = _cpu_flags()
    if "amx_bf16" in flags:
        findings.append(Finding("bf16", "AMX", "bf16 training is several times faster than fp32"))
    elif "avx512_bf16" in flags:
        findings.append(Finding("bf16", "AVX-512", "bf16 training is faster than fp32"))
    else:
        findings.append(Finding("bf16", "emulated", "fp32 is the better choice here", good=False))
    if torch.cuda.is_available():
        name = torch.cuda.get_device_name(0)
        findings.append(Finding("CUDA", name, "training and decoding run on it"))
    else:
        findings.append(Finding("CUDA", "none", "everything runs on the CPU", good=False))
    return findings


def _cpu_flags() -> set[str]:
    """The instruction sets that Linux lists; elsewhere none are known."""
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("flags"):
                return set(line.partition(":")[2].split())
    except OSError:
        pass
    return set()


def _audio() -> list[Finding]:
    try:
        import soundfile
    except (ImportError, OSError) as error:
        return [Finding("audio", "missing", f"no recording can be read: {error}", good=False)]
    known = soundfile.available_formats()
    formats = [name for name in ("WAV", "FLAC", "OGG", "MP3") if name in known]
    whole = "MP3" in formats
    meaning = "Common Voice can be read" if whole else "too old for mp3: upgrade soundfile"
    return [Finding("audio", ", ".join(formats).lower(), meaning, whole)]


def _extras() -> list[Finding]:
    findings = []
    for extra, (module, purpose) in EXTRAS.items():
        if importlib.util.find_spec(module):
            findings.append(Finding(f"extra {extra}", "installed", purpose))
        else:
            how = f'for {purpose}: pip install "arborvox[{extra}]"'
            findings.append(
                Finding(f"extra {extra}", "not installed", how.replace("[", "\\["), False)
            )
    return findings
