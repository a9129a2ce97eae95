"""Nothing that only POSIX has is needed to import a command: Windows has neither."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "arborvox"
MODULES = sorted(PACKAGE.rglob("*.py"))

POSIX_MODULES = {
    "crypt", "fcntl", "grp", "nis", "ossaudiodev", "posix", "pty", "pwd", "readline", "resource",
    "spwd", "syslog", "termios", "tty",
}  # fmt: skip
POSIX_ATTRIBUTES = {
    "os": {
        "fchmod", "fchown", "fork", "forkpty", "getegid", "geteuid", "getgid", "getloadavg",
        "getpgid", "getpgrp", "getuid", "killpg", "mkfifo", "nice", "register_at_fork",
        "sched_getaffinity", "setsid", "statvfs", "sysconf", "uname", "wait", "waitpid",
        "O_NONBLOCK", "O_NOFOLLOW", "O_CLOEXEC",
    },
    "signal": {
        "SIGALRM", "SIGCHLD", "SIGHUP", "SIGKILL", "SIGPIPE", "SIGUSR1", "SIGUSR2", "alarm",
        "pthread_sigmask", "setitimer", "sigtimedwait",
    },
}  # fmt: skip
# A file that uses one of these in a function says there what is done where they are missing.
GUARDS = ("hasattr(os,", "hasattr(signal,", "sys.platform", "AttributeError")

# The libraries come first, on their own feet; then the system loses what Windows has not.
IMPORT_ALL = """
import importlib, os, signal, sys
import filelock, lhotse, matplotlib.pyplot, numba, panphon, pydantic, rapidfuzz, regex
import rich.progress, safetensors.torch, sentencepiece, soundfile, soxr, torch, typer, yaml
import torch.distributed, torch.utils.data, multiprocessing.connection, lhotse.features.kaldi.layers
posix_modules, posix_attributes, modules = eval(sys.argv[1])
for name in posix_modules:
    sys.modules[name] = None
for module, names in posix_attributes.items():
    for name in names:
        if hasattr(sys.modules[module], name):
            delattr(sys.modules[module], name)
for name in modules:
    importlib.import_module(name)
"""


def dotted_name(path: Path) -> str:
    words = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(words).removesuffix(".__init__")


def test_every_module_is_imported_without_posix() -> None:
    names = [dotted_name(path) for path in MODULES if path.name != "__main__.py"]
    told = repr((POSIX_MODULES, POSIX_ATTRIBUTES, names))
    done = subprocess.run(
        [sys.executable, "-c", IMPORT_ALL, told], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def _is_posix(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.attr in POSIX_ATTRIBUTES.get(node.value.id, ())
    )


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_posix_is_never_taken_for_granted(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            assert not {alias.name.partition(".")[0] for alias in node.names} & POSIX_MODULES
        elif isinstance(node, ast.ImportFrom):
            assert (node.module or "").partition(".")[0] not in POSIX_MODULES
        elif _is_posix(node):
            assert any(guard in text for guard in GUARDS), ast.unparse(node)


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_text_files_name_their_encoding(path: Path) -> None:
    """What a system takes for granted differs: Windows may read a recipe as cp1252."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if not isinstance(node, ast.Call):
            continue
        called = node.func.attr if isinstance(node.func, ast.Attribute) else ""
        given = {keyword.arg for keyword in node.keywords}
        if called in ("read_text", "write_text"):
            assert "encoding" in given, f"line {node.lineno}"
        elif called == "open" and node.args and isinstance(node.args[0], ast.Constant):
            mode = str(node.args[0].value)
            assert "b" in mode or "encoding" in given, f"line {node.lineno}"
