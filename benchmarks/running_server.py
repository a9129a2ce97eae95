"""Servers as processes of their own."""

import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def serve_command(run: Path, *options: str) -> list[str]:
    """Return the command that serves a model at a free port."""
    return [sys.executable, "-m", "arborvox", "serve", str(run), "--port=0", *options]


@contextmanager
def running(command: list[str]) -> Iterator[int]:
    """Run a server and yield its port when it says that it serves."""
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(command, stderr=log, stdout=subprocess.DEVNULL)
        try:
            while True:
                log.seek(0)
                if found := re.search(rb"http://[^:]+:(\d+)/ serves", log.read()):
                    yield int(found[1])
                    return
                if process.poll() is not None:
                    log.seek(0)
                    sys.exit(log.read().decode())
                time.sleep(0.1)
        finally:
            process.terminate()
            process.wait()
