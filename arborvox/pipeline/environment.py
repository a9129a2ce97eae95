"""What a result may depend on beyond recipe and data: machine, versions, state of the code."""

import platform
import subprocess
from importlib.metadata import version
from pathlib import Path

from arborvox.processes import count_cores
from arborvox.version import VERSION

PACKAGES = ("torch", "numpy", "numba", "lhotse")


def describe_environment() -> dict[str, str]:
    """Return facts in words, for people who repeat an experiment."""
    facts = {
        "Arborvox": f"{VERSION}{_commit()}",
        "Python": platform.python_version(),
        "Libraries": ", ".join(f"{name} {version(name)}" for name in PACKAGES),
        "System": platform.platform(),
        "Processor": f"{_processor()}, {count_cores()} cores usable",
    }
    accelerator = _accelerator()
    return {**facts, "GPU": accelerator} if accelerator else facts


def _commit() -> str:
    """Name the commit if this is a checkout, and whether anything was changed since."""
    here = Path(__file__).resolve().parent
    top = _git(here, "rev-parse", "--show-toplevel")
    # A package that is installed inside somebody else's repository is no checkout of ours.
    if top is None or Path(top) != here.parents[1]:
        return ""
    commit, changes = _git(here, "rev-parse", "--short=12", "HEAD"), _git(here, "status", "-s")
    if commit is None:
        return ""
    return f", commit {commit}" + (" with uncommitted changes" if changes else "")


def _git(folder: Path, *arguments: str) -> str | None:
    try:
        done = subprocess.run(
            ["git", *arguments], cwd=folder, capture_output=True, text=True, check=True
        )
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout.strip()


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    # model name	: AMD EPYC 9B14
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def _accelerator() -> str | None:
    import torch

    return torch.cuda.get_device_name(0) if torch.cuda.is_available() else None
