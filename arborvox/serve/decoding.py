"""Strangers' recordings, decoded in processes of their own and cut at their pauses."""

import asyncio
import contextlib
import sys
from collections.abc import AsyncGenerator, Iterator
from importlib import import_module
from multiprocessing.connection import Connection
from pathlib import Path

from arborvox import audio
from arborvox.audio.recording import open_recording
from arborvox.decode.endpointing import PauseCutter
from arborvox.decode.segments import SpeechSegment
from arborvox.serve.children import Child, ChildDied
from arborvox.serve.messages import FileEnd, FileTask, Refusal

with contextlib.suppress(ImportError):
    import av  # noqa: F401  (loaded once, before the children are forked)

BLOCK_S = 10.0
# What a decoder may take beyond what it has when it starts.
MEMORY_MB = 1024
SLOWEST_S = 60.0  # until the next stretch of speech, or the end
LEAST_RATE, MOST_RATE = 1000, 768_000
MOST_CHANNELS = 64


class UnreadableRecording(Exception):  # noqa: N818  (a verdict on a file)
    """Why an upload cannot be used."""


def decode_files(connection: Connection) -> None:
    """Answer each file task with its segments, then its end or a refusal; run in a child."""
    _bound_memory()
    while True:
        task: FileTask = connection.recv()
        try:
            for part in _read(task):
                connection.send(part)
        except audio.AudioProblem as problem:
            connection.send(Refusal(str(problem)))
        except UnicodeError:
            connection.send(Refusal("damaged"))
        except MemoryError:
            connection.send(Refusal("it needs too much memory to be decoded"))


def _read(task: FileTask) -> Iterator[SpeechSegment | FileEnd]:
    too_long = audio.AudioProblem(f"too long: more than {task.max_duration_s:g} s")
    with open_recording(task.path) as recording:
        if not LEAST_RATE <= recording.sampling_rate <= MOST_RATE:
            raise audio.AudioProblem(f"a rate of {recording.sampling_rate} Hz is no speech")
        if recording.num_channels > MOST_CHANNELS:
            raise audio.AudioProblem(f"{recording.num_channels} channels are no recording")
        stated = recording.num_samples or 0
        if recording.is_exact and stated > task.max_duration_s * recording.sampling_rate:
            raise too_long
    cutter = PauseCutter(task.sampling_rate, task.max_segment_s)
    for block in audio.stream(task.path, task.sampling_rate, BLOCK_S):
        yield from cutter.push(block)
        if cutter.num_samples > task.max_duration_s * task.sampling_rate:
            raise too_long
    yield from cutter.finish()
    yield FileEnd(cutter.num_samples / task.sampling_rate)


def _bound_memory() -> None:
    """Keep a file that unfolds to gigabytes from taking the machine with it; on Linux alone."""
    statistics = Path("/proc/self/statm")
    if sys.platform != "linux" or not statistics.exists():
        return
    resource = import_module("resource")  # where POSIX is
    # Pages of this process, as in: 12345 6789 1234 5 0 4321 0; the sixth is its data.
    pages = int(statistics.read_text(encoding="ascii").split()[5])
    most = pages * resource.getpagesize() + (MEMORY_MB << 20)
    resource.setrlimit(resource.RLIMIT_DATA, (most, most))


class Decoders:
    """Decoding processes, started when they are needed and used again."""

    def __init__(self, most_idle: int) -> None:
        """Keep no more than so many idle."""
        self._most_idle = most_idle
        self._idle: list[Child] = []

    async def segments(self, task: FileTask) -> AsyncGenerator[SpeechSegment | FileEnd, None]:
        """Yield the speech of a recording as it is decoded, then its end.

        Nothing is read ahead but what a pipe holds. Raises UnreadableRecording.
        """
        child = self._idle.pop() if self._idle else Child(decode_files)
        is_sound = False
        try:
            answer = child.ask(task)
            while True:
                async with asyncio.timeout(SLOWEST_S):
                    part = await answer
                if isinstance(part, Refusal):
                    is_sound = True
                    raise UnreadableRecording(part.sentence)
                if isinstance(part, FileEnd):
                    is_sound = True
                    yield part
                    return
                yield part
                answer = child.receive()
        except ChildDied:
            raise UnreadableRecording("damaged: its decoder broke down") from None
        except TimeoutError:
            raise UnreadableRecording("damaged: it took too long to decode") from None
        finally:
            # One that stopped in the middle has more to say than the next one wants to hear.
            if is_sound and len(self._idle) < self._most_idle:
                self._idle.append(child)
            else:
                child.end()

    def close(self) -> None:
        """End them all."""
        while self._idle:
            self._idle.pop().end()
