"""`arborvox serve` as a process of its own, and sounds to send it."""

import http.client
import io
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import soundfile

RATE = 16000
ADDRESS = re.compile(rb"http://(\S+?):(\d+)/ serves")


class RunningServer:
    """A server with tiny models, its log, and its scratch folder."""

    def __init__(
        self, arguments: Sequence[str], folder: Path, port: int = 0, **environment: str
    ) -> None:
        """Start it and wait until it says where it is."""
        self.scratch = folder / "scratch"
        self.scratch.mkdir(parents=True, exist_ok=True)
        self.log_path = folder / "log.jsonl"
        command = [sys.executable, "-m", "arborvox", "serve", *arguments, f"--port={port}"]
        settings = {
            "OMP_NUM_THREADS": "1",
            "TMPDIR": str(self.scratch),
            "COLUMNS": "500",
            **environment,
        }
        with self.log_path.open("wb") as log:
            self.process = subprocess.Popen(
                command, env={**os.environ, **settings}, stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL, stderr=log, start_new_session=True,
            )  # fmt: skip
        self.host, self.port = self._wait_for_address()

    def _wait_for_address(self) -> tuple[str, int]:
        # Its standard error is a file, so that a test can read it: look until it says so.
        while True:
            said = self.log_path.read_bytes()
            if found := ADDRESS.search(said):
                return found[1].decode(), int(found[2])
            try:
                self.process.wait(timeout=0.05)
            except subprocess.TimeoutExpired:
                continue
            raise RuntimeError(f"the server ended: {self.log_path.read_text()}")

    @property
    def url(self) -> str:
        """Where it is."""
        return f"http://{self.host}:{self.port}"

    @property
    def log(self) -> str:
        """What it has said."""
        return self.log_path.read_text(encoding="utf-8")

    @property
    def left_files(self) -> list[Path]:
        """Files in its scratch folders."""
        return [path for path in self.scratch.rglob("*") if path.is_file()]

    def stop(self, sign: int = signal.SIGTERM) -> int:
        """End it and return its exit code."""
        if self.process.poll() is None:
            self.process.send_signal(sign)
        return self.process.wait(timeout=60)


def ask(
    server: RunningServer,
    method: str,
    path: str,
    body: bytes | None = None,
    headers: dict[str, str] | None = None,
) -> tuple[int, dict[str, str], bytes]:
    """Make one request on a connection of its own."""
    connection = http.client.HTTPConnection(server.host, server.port, timeout=60)
    try:
        connection.request(method, path, body, headers or {})
        answer = connection.getresponse()
        named = {name.lower(): value for name, value in answer.getheaders()}
        return answer.status, named, answer.read()
    finally:
        connection.close()


def speech(seconds: float, seed: int = 0, rate: int = RATE) -> np.ndarray:
    """Return noise with a pause of 0.8 s in every 3 s, as 16-bit samples."""
    chance = np.random.default_rng(seed)
    samples = 0.1 * chance.normal(size=round(seconds * rate))
    samples[np.arange(len(samples)) % (3 * rate) > 2.2 * rate] *= 0.0003
    return np.round(np.clip(samples, -1, 1) * 32767).astype(np.int16)


def wav(samples: np.ndarray, rate: int = RATE, kind: str = "WAV") -> bytes:
    """Return the bytes of a file."""
    file = io.BytesIO()
    soundfile.write(file, samples, rate, format=kind)
    return file.getvalue()


def scratch() -> Path:
    """Return a new folder that the caller removes."""
    return Path(tempfile.mkdtemp(prefix="arborvox-test-"))
