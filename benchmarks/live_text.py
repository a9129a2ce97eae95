"""How soon text follows speech, with four people speaking at once.

    python benchmarks/live_text.py NAME=RUN … [--mode M] [--lm F --lm-weight W --length-bonus B]
        [--seed N] [--at-once] [--json F]

Speech is synthesised, so the end of every word is known (benchmarks/spoken_words.py), and sent in
real time over the socket. Measured is how long after a word's end the text is as long as it takes
to have the word, first has it, and has it for good (benchmarks/live_delays.py). With `--at-once`
no server is asked and recognizing counts as if it took no time: what is left is the model's part,
which has not heard enough or changes its mind, and needs no quiet machine to be measured.
Needs the extras `serve` and `demo`; RUN is best one of the demo's, which knows these voices.
"""

import argparse
import asyncio
import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from live_delays import MEASURES, Delays, Shown, Word, note_delays
from publishing import print_table, publish
from running_server import running, serve_command
from spoken_words import RATE, Talk, make_talks
from websockets.asyncio.client import connect

from arborvox.config import DecodeConfig
from arborvox.decode.endpointing import PauseCutter
from arborvox.decode.segments import SpeechSegment
from arborvox.recognizer import Recognizer, load_run
from arborvox.report.document import Cell, Table

FRAME_S = 0.05
NUM_SPEAKERS = 4
BAR_S = 0.5
BATCH = 8  # drafts


async def speak(port: int, talk: Talk) -> Delays:
    """Send a talk as fast as it is spoken; note how long after its end each word is shown."""
    delays, frame = Delays(), round(FRAME_S * RATE)
    shown: list[Shown] = []  # of the running segment
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
            words = [Word(word["word"], word["start"], word["end"]) for word in reply["result"]]
            delays += note_delays(talk, words, [*shown, (now_s, reply["text"])])
            shown.clear()
        await sending
    return delays


async def speak_together(port: int, talks: Sequence[Talk]) -> Delays:
    """Let all of them speak at once."""
    return sum(await asyncio.gather(*(speak(port, talk) for talk in talks)), Delays())


def hear_at_once(recognizer: Recognizer, talks: Sequence[Talk]) -> Delays:
    """Do what the server does, with a draft after every frame, each as if it cost nothing."""
    return sum((_hear(recognizer, talk) for talk in talks), Delays())


def _hear(recognizer: Recognizer, talk: Talk) -> Delays:
    delays, frame = Delays(), round(FRAME_S * RATE)
    cutter = PauseCutter(RATE, recognizer.max_segment_s)
    samples = talk.samples.astype(np.float32) / np.float32(32768)
    drafts: list[tuple[float, SpeechSegment]] = []  # of the running segment
    for start in range(0, len(samples), frame):
        ended = cutter.push(samples[start : start + frame])
        now_s = (start + frame) / RATE
        segments = recognizer.recognize(ended)
        if segments:
            words = [
                Word(word.text, word.start_s or 0.0, word.end_s or 0.0)
                for segment in segments
                for word in segment.words
            ]
            text = " ".join(segment.text for segment in segments)
            shown = [*_write_down(recognizer, drafts), (now_s, text)]
            delays += note_delays(talk, words, shown)
            drafts.clear()
        elif (running := cutter.running) is not None:
            drafts.append((now_s, running))
    return delays


def _write_down(
    recognizer: Recognizer, drafts: Sequence[tuple[float, SpeechSegment]]
) -> list[Shown]:
    """Recognize drafts in batches: none depends on another."""
    shown: list[Shown] = []
    for begin in range(0, len(drafts), BATCH):
        times_s, batch = zip(*drafts[begin : begin + BATCH], strict=True)
        texts = [segment.text for segment in recognizer.recognize(batch)]
        shown += zip(times_s, texts, strict=True)
    return shown


def delay_rows(model: str, speech: str, delays: Delays) -> list[tuple[Cell, ...]]:
    """Return a row for each measure."""
    rows = []
    for name, meaning in MEASURES.items():
        times = getattr(delays, name)
        shares = [f"{np.percentile(times, share):.2f}" for share in (50, 95, 99)]
        late = f"{100 * np.mean(np.array(times) > BAR_S):.1f}"
        rows.append(tuple(map(Cell, (model, speech, meaning, str(len(times)), *shares, late))))
    return rows


def flicker_row(model: str, speech: str, delays: Delays) -> tuple[Cell, ...]:
    """Tell how many words were there and taken back, and how long until they were back for good."""
    back_s = [b - a for a, b in zip(delays.first_s, delays.stays_s, strict=True) if b > a]
    times = [f"{np.percentile(back_s, share):.2f}" if back_s else "–" for share in (50, 95)]
    return tuple(map(Cell, (model, speech, str(len(delays.first_s)), str(len(back_s)), *times)))


def main() -> None:
    """Let people speak to each model in each way."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("runs", nargs="+", metavar="NAME=RUN")
    parser.add_argument("--mode", default="auto", help="the search")
    parser.add_argument("--lm", type=Path, help="a language model for all of them")
    parser.add_argument("--lm-weight", type=float, default=0.3)
    parser.add_argument("--length-bonus", type=float, default=0.0)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0, help="draws what is said, and who says it")
    parser.add_argument("--at-once", action="store_true", help="no server; nothing takes time")
    parser.add_argument("--json", type=Path, help="write the figures here")
    options = parser.parse_args()
    runs = {name: Path(run) for name, _, run in (each.partition("=") for each in options.runs)}
    search: dict[str, Any] = {"mode": options.mode}
    if options.lm:
        search |= {"lm": str(options.lm), "lm_weight": options.lm_weight}
        search |= {"length_bonus": options.length_bonus}
    talks = make_talks(NUM_SPEAKERS, options.seed)
    rows, flickers, samples = [], [], {}
    for model, run in runs.items():
        if options.at_once:
            recognizer = load_run(run, DecodeConfig(**search))
            heard = {kind: hear_at_once(recognizer, talks[kind]) for kind in talks}
        else:
            asked = (f"--{key.replace('_', '-')}={value}" for key, value in search.items())
            command = serve_command(run, f"--workers={options.workers}", *asked)
            with running(command) as port:
                asyncio.run(speak(port, talks["sentences"][0]))  # warm
                heard = {kind: asyncio.run(speak_together(port, talks[kind])) for kind in talks}
        for kind, delays in heard.items():
            rows += delay_rows(model, kind, delays)
            flickers.append(flicker_row(model, kind, delays))
            for name in MEASURES:
                times = sorted(getattr(delays, name))
                samples[f"{model}, {kind}: {name}"] = [round(each, 3) for each in times]
    header = ("model", "speech", "after a word's end, until", "words", "p50 (s)", "p95 (s)")
    again = ("words", "taken back", "until back for good: p50 (s)", "p95 (s)")
    tables = {
        "delays": Table((*header, "p99 (s)", f"later than {BAR_S:g} s (%)"), tuple(rows)),
        "flicker": Table(("model", "speech", *again), tuple(flickers)),
    }
    for table in tables.values():
        print_table(table)
    if options.json:
        publish(options.json, tables, samples=samples)


if __name__ == "__main__":
    main()
