"""How many requests a server answers, how soon, and how soon text follows speech.

    python benchmarks/serving.py RUN [--seconds 12] [--json out.json]

Clips of 5 s of synthesised speech are sent by 1, 8, 32 and 128 clients, each of which sends the
next when the last was answered; told to come again later (429), a client does. A request's time
counts from its first try to its answer, so waiting is in it. `plain` is a server of one request at
a time with the same model and both cores (benchmarks/plain_server.py). Then four people speak at
once: how long after a word's end, known from the synthesis, the text first reaches its last letter,
and how long until the word stands there as it stays.
Needs the extras `serve` and `demo`; RUN is best the demo's model, which knows these voices.
"""

import argparse
import asyncio
import io
import json
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import soundfile
from publishing import print_table, publish
from spoken_words import RATE, Talk, make_talks
from websockets.asyncio.client import connect

from arborvox.report.document import Cell, Table

CLIENTS = (1, 8, 32, 128)
CLIP_S = 5.0
FRAME_S = 0.05
NUM_SPEAKERS = 4
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

    def percentile_s(self, share: float) -> float:
        """Return the time that a share of the requests did not exceed."""
        return float(np.percentile(self.times_s, share))


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


@dataclass
class Speaker:
    """One talk as it was heard: how long after their ends words were shown."""

    reached_s: list[float] = field(default_factory=list)  # as many letters as it takes
    settled_s: list[float] = field(default_factory=list)  # the word itself, as it stays
    num_words: int = 0


async def speak(port: int, talk: Talk) -> Speaker:
    """Send a talk as fast as it is spoken; note how long after its end each word is shown."""
    heard = Speaker(num_words=len(talk.spans_s))
    frame = round(FRAME_S * RATE)
    shown: list[tuple[float, str]] = []  # of the running segment
    async with connect(f"ws://127.0.0.1:{port}/v1/listen") as socket:
        await socket.send(json.dumps({"config": {"sample_rate": RATE}}))
        began_s = time.monotonic()

        async def send() -> None:
            for number, start in enumerate(range(0, len(talk.samples), frame), start=1):
                await asyncio.sleep(began_s + number * FRAME_S - time.monotonic())
                await socket.send(talk.samples[start : start + frame].tobytes())
            await socket.send('{"eof": 1}')

        sending = asyncio.create_task(send())
        async for message in socket:
            reply, now_s = json.loads(message), time.monotonic() - began_s
            if "partial" in reply:
                shown.append((now_s, reply["partial"]))
                continue
            _note_delays(heard, talk, reply["result"], [*shown, (now_s, reply["text"])])
            shown.clear()
        await sending
    return heard


def _note_delays(
    heard: Speaker,
    talk: Talk,
    words: list[dict[str, Any]],
    shown: list[tuple[float, str]],
) -> None:
    """Of each word of a result find the spoken one, and when its text was first there."""
    num_letters = 0
    for place, word in enumerate(words):
        num_letters += len(word["word"])
        overlaps = [
            min(end_s, word["end"]) - max(start_s, word["start"]) for start_s, end_s in talk.spans_s
        ]
        best = int(np.argmax(overlaps))
        if overlaps[best] <= 0:
            continue
        end_s = talk.spans_s[best][1]
        reached_s = next(t for t, text in shown if len(text.replace(" ", "")) >= num_letters)
        settled_s = next(
            t for t, text in shown if text.split()[place : place + 1] == [word["word"]]
        )
        heard.reached_s.append(reached_s - end_s)
        heard.settled_s.append(settled_s - end_s)


async def speak_together(port: int, talks: list[Talk]) -> list[Speaker]:
    """Let all of them speak at once."""
    return list(await asyncio.gather(*(speak(port, talk) for talk in talks)))


def make_clips(talks: list[Talk]) -> list[bytes]:
    """Cut talks into WAV files of five seconds."""
    clips, size = [], round(CLIP_S * RATE)
    for talk in talks:
        for start in range(0, len(talk.samples) - size, size):
            file = io.BytesIO()
            soundfile.write(file, talk.samples[start : start + size], RATE, format="WAV")
            clips.append(file.getvalue())
    return clips


def describe(name: str, clients: int, load: Load, other: Load | None) -> tuple[Cell, ...]:
    """Return a row of the table."""
    times = [f"{load.percentile_s(share):.2f}" for share in (50, 95, 99)]
    ratio = f"{load.per_second / other.per_second:.2f}" if other else ""
    counts = (str(load.num_retries), str(load.num_lost))
    return tuple(map(Cell, (str(clients), name, f"{load.per_second:.1f}", *times, *counts, ratio)))


def main() -> None:
    """Start the servers in turn and press them."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("run", type=Path)
    parser.add_argument("--seconds", type=float, default=12.0, help="of each number of clients")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--json", type=Path, help="write the figures here")
    options = parser.parse_args()
    talks = make_talks(NUM_SPEAKERS)
    clips = make_clips(talks)
    plain_command = [sys.executable, str(MAIN / "plain_server.py"), str(options.run), "0"]
    ours_command = [sys.executable, "-m", "arborvox", "serve", str(options.run), "--port=0"]
    ours_command += [f"--workers={options.workers}", "--parallel=16"]
    loads: dict[str, dict[int, Load]] = {}
    for name, command, path in (
        ("plain", plain_command, "/"),
        ("arborvox serve", ours_command, "/v1/audio/transcriptions"),
    ):
        with running(command) as port:
            asyncio.run(press(port, clips, path, 2, 2.0))  # warm
            loads[name] = {
                clients: asyncio.run(press(port, clips, path, clients, options.seconds))
                for clients in CLIENTS
            }
    with running(ours_command) as port:
        heard = asyncio.run(speak_together(port, talks))
    rows = [
        describe(name, clients, loads[name][clients], None if name == "plain" else plain)
        for clients in CLIENTS
        for plain in [loads["plain"][clients]]
        for name in loads
    ]
    header = ("clients", "server", "answers a second", "p50 (s)", "p95 (s)", "p99 (s)")
    load_table = Table((*header, "told to come again", "lost", "ratio to plain"), tuple(rows))
    delays = {
        "the text reaches its last letter": [d for speaker in heard for d in speaker.reached_s],
        "it stands there as it stays": [d for speaker in heard for d in speaker.settled_s],
    }
    live_rows = [
        (name, str(len(times)), *(f"{np.percentile(times, share):.2f}" for share in (50, 95, 99)))
        for name, times in delays.items()
    ]
    live_header = ("after a word's end", "words", "p50 (s)", "p95 (s)", "p99 (s)")
    live_table = Table(live_header, tuple(tuple(map(Cell, row)) for row in live_rows))
    tables = {"load": load_table, "live": live_table}
    for table in tables.values():
        print_table(table)
    if options.json:
        figures = {name: [round(t, 3) for t in sorted(times)] for name, times in delays.items()}
        publish(options.json, tables, samples=figures)


if __name__ == "__main__":
    main()
