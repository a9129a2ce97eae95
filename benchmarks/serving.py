"""How many requests a server answers, and how soon.

    python benchmarks/serving.py RUN [--repeats 3] [--seconds 5] [--json out.json]

Clips of 5 s of synthesised speech are sent by 1, 8, 32 and 128 clients, each of which sends the
next when the last was answered; told to come again later (429), a client does. A request's time
counts from its first try to its answer, so waiting is in it. `plain` is a server of one request at
a time with the same model and both cores (benchmarks/plain_server.py). Both servers are up all the
time and take turns, several times with each number of clients.
Needs the extras `serve` and `demo`; RUN is best the demo's model, which knows these voices.
"""

import argparse
import asyncio
import io
import re
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import soundfile
from publishing import print_table, publish
from running_server import running, serve_command
from spoken_words import RATE, Talk, make_talks

from arborvox.report.document import Cell, Table

CLIENTS = (1, 8, 32, 128)
CLIP_S = 5.0
NUM_VOICES = 4
MAIN = Path(__file__).parent


@dataclass
class Load:
    """What came of a number of clients."""

    seconds: float = 0.0
    times_s: list[float] = field(default_factory=list)
    num_retries: int = 0
    num_lost: int = 0

    @property
    def per_second(self) -> float:
        """Answers a second."""
        return len(self.times_s) / self.seconds

    def __add__(self, other: "Load") -> "Load":
        return Load(
            self.seconds + other.seconds,
            self.times_s + other.times_s,
            self.num_retries + other.num_retries,
            self.num_lost + other.num_lost,
        )

    def percentile_s(self, share: float) -> float:
        """Return the time that a share of the requests did not exceed."""
        return float(np.percentile(self.times_s, share))


def make_request(port: int, clip: bytes, path: str) -> bytes:
    """Return a whole HTTP request; the plain server takes the clip as it is."""
    body, kind = clip, "audio/wav"
    if path != "/":
        head = 'Content-Disposition: form-data; name="file"; filename="x.wav"'
        body = f"--B\r\n{head}\r\n\r\n".encode() + clip + b"\r\n--B--\r\n"
        kind = "multipart/form-data; boundary=B"
    head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\n"
    return f"{head}Content-Type: {kind}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


async def client(port: int, requests: list[bytes], until_s: float, load: Load, turn: int) -> None:
    """Send requests one after the other until the time is over; the last is waited for."""
    while time.monotonic() < until_s:
        request = requests[turn % len(requests)]
        turn += 1
        began_s = time.monotonic()
        while True:
            try:
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.write(request)
                answer = await reader.read()
                writer.close()
            except OSError:
                answer = b""
            status = answer.split(b" ", 2)[1:2]
            if status != [b"429"]:
                break
            load.num_retries += 1
            wait = re.search(rb"(?i)retry-after: (\d+)", answer)
            await asyncio.sleep(float(wait[1]) if wait else 1.0)
        if status == [b"200"]:
            load.times_s.append(time.monotonic() - began_s)
        else:
            load.num_lost += 1


async def press(port: int, clips: list[bytes], path: str, clients: int, seconds: float) -> Load:
    """Let so many clients work for a while."""
    load = Load()
    requests = [make_request(port, clip, path) for clip in clips]
    began_s = time.monotonic()
    await asyncio.gather(
        *(client(port, requests, began_s + seconds, load, n) for n in range(clients))
    )
    load.seconds = time.monotonic() - began_s
    return load


def make_clips(talks: list[Talk]) -> list[bytes]:
    """Cut talks into WAV files of five seconds."""
    clips, size = [], round(CLIP_S * RATE)
    for talk in talks:
        for start in range(0, len(talk.samples) - size, size):
            file = io.BytesIO()
            soundfile.write(file, talk.samples[start : start + size], RATE, format="WAV")
            clips.append(file.getvalue())
    return clips


def take_turns(
    servers: dict[str, tuple[int, str]], clips: list[bytes], repeats: int, seconds: float
) -> dict[str, dict[int, list[Load]]]:
    """Press the servers in turn, again and again; what disturbs the machine disturbs them all."""
    loads: dict[str, dict[int, list[Load]]] = {name: {} for name in servers}
    for port, path in servers.values():
        asyncio.run(press(port, clips, path, 2, 2.0))  # warm
    for clients in CLIENTS:
        for _ in range(repeats):
            for name, (port, path) in servers.items():
                load = asyncio.run(press(port, clips, path, clients, seconds))
                loads[name].setdefault(clients, []).append(load)
    return loads


def describe(
    name: str, clients: int, loads: list[Load], others: list[Load] | None
) -> tuple[Cell, ...]:
    """Return a row of the table."""
    load = sum(loads, Load())
    rates = [each.per_second for each in loads]
    times = [f"{load.percentile_s(share):.3f}" for share in (50, 95, 99)]
    counts = (str(load.num_retries), str(load.num_lost))
    ratio = f"{load.per_second / sum(others, Load()).per_second:.2f}" if others else ""
    spread = f"{min(rates):.1f}–{max(rates):.1f}"
    cells = (str(clients), name, f"{load.per_second:.1f}", spread, *times, *counts, ratio)
    return tuple(map(Cell, cells))


def load_table(loads: dict[str, dict[int, list[Load]]]) -> Table:
    """Put the servers side by side."""
    rows = [
        describe(name, clients, loads[name][clients], None if name == "plain" else plain)
        for clients in CLIENTS
        for plain in [loads["plain"][clients]]
        for name in loads
    ]
    header = ("clients", "server", "answers a second", "in each turn", "p50 (s)", "p95 (s)")
    return Table((*header, "p99 (s)", "told to come again", "lost", "ratio to plain"), tuple(rows))


def main() -> None:
    """Start the servers and press them."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("run", type=Path)
    parser.add_argument("--seconds", type=float, default=5.0, help="of each turn")
    parser.add_argument("--repeats", type=int, default=3, help="turns with each number of clients")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--json", type=Path, help="write the figures here")
    options = parser.parse_args()
    clips = make_clips(make_talks(NUM_VOICES)["sentences"])
    plain = [sys.executable, str(MAIN / "plain_server.py"), str(options.run), "0"]
    ours = serve_command(options.run, f"--workers={options.workers}", "--parallel=16")
    with running(plain) as plain_port, running(ours) as port:
        servers = {
            "plain": (plain_port, "/"),
            "arborvox serve": (port, "/v1/audio/transcriptions"),
        }
        table = load_table(take_turns(servers, clips, options.repeats, options.seconds))
    print_table(table)
    if options.json:
        publish(options.json, {"load": table})


if __name__ == "__main__":
    main()
