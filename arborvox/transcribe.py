"""Many recordings at once: `arborvox transcribe`, by one process or by several together."""

import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

from arborvox.config import DecodeConfig
from arborvox.console import progress, say, warn
from arborvox.corpora.folder_sources import AUDIO_ENDINGS
from arborvox.decode.finished import Finished
from arborvox.decode.transcript import (
    PLAIN,
    WRITERS,
    TierLayout,
    Transcript,
    to_eaf,
    to_textgrid,
)
from arborvox.errors import ArborvoxError
from arborvox.files import name_failed_writes, write_text_atomic
from arborvox.recognizer import UnusableRecordingError, load
from arborvox.team import this_team

ENDINGS = {"textgrid": "TextGrid"}  # where it is not the format's name


def transcribe_files(
    run: Path,
    sources: Sequence[Path],
    config: DecodeConfig,
    *,
    kind: str,
    out: Path | None,
    layout: TierLayout = PLAIN,
) -> int:
    """Transcribe files and folders to a folder, or to standard output; return how many failed.

    Processes that torchrun started share the files; the same command started again goes on.
    """
    files = list(find_recordings(sources))
    targets = _targets(files, kind, out)
    team = this_team()
    recognizer = load(run, config)
    work = [(file, target) for (file, _), target in zip(files, targets, strict=True)]
    finished = None
    if out is not None:
        asked = [kind, asdict(layout), [ascii(str(file)) for file, _ in work]]
        finished = Finished(out, recognizer.engine, asked, team)
        work = [
            (file, target)
            for file, target in work
            if _identity(file) not in finished.done or not (target and target.is_file())
        ]
    if team.world > 1:  # the longest first, so that nobody waits for the last one
        work.sort(key=lambda pair: -_size(pair[0]))
    num_failed = drawn = 0
    with progress("transcribing", len(work)) as advance:
        for number in team.draw(len(work)):
            file, target = work[number]
            try:
                transcript = recognizer.transcribe(file)
                if not transcript.duration_s:
                    warn(f"{file}: no samples.")
                text = _write(transcript, kind, layout, file, target)
                _deliver(text, file, target, alone=len(files) == 1)
                if finished is not None:
                    finished.add(_identity(file))
            except UnusableRecordingError as error:
                warn(str(error))
                num_failed += 1
            except BrokenPipeError:  # nobody reads our output any more
                raise
            except OSError as error:
                named = error.filename or file
                warn(f"{file}: {named}: {error.strerror or error}.")
                num_failed += 1
            advance(number + 1 - drawn)
            drawn = number + 1
    if finished is not None:
        finished.gather(())
        finished.forget()
    num_failed = team.sum(num_failed)
    if num_failed and team.first:
        warn(f"{num_failed} of {len(files)} files could not be transcribed.")
    return num_failed


def _identity(file: Path) -> str:
    """Name a recording as it is now: another one of its name is not taken for it."""
    try:
        status = file.stat()
    except OSError:
        return ascii(str(file))
    return f"{str(file)!a}|{status.st_size}|{status.st_mtime_ns}"


def _size(file: Path) -> int:
    try:
        return file.stat().st_size
    except OSError:  # told when it is read
        return 0


def _write(
    transcript: Transcript, kind: str, layout: TierLayout, file: Path, target: Path | None
) -> str:
    if kind == "eaf":
        return to_eaf(transcript, layout, file, None if target is None else target.parent)
    if kind == "textgrid":
        return to_textgrid(transcript, layout)
    return WRITERS[kind](transcript)


def find_recordings(sources: Sequence[Path], beside: str = "") -> Iterator[tuple[Path, Path]]:
    """Yield each recording of files and folders with its name below them, less the ending.

    Files that end in `beside` belong to recordings; that others are left out is said.
    """
    for source in sources:
        if not source.is_dir():
            yield source, Path(source.stem)
            continue
        others, found = [], False
        for folder, folders, names in os.walk(source):
            folders.sort()
            for name in sorted(names):
                path = Path(folder) / name
                if path.suffix.lower() in AUDIO_ENDINGS:
                    found = True
                    yield path, path.relative_to(source).with_suffix("")
                elif not name.startswith(".") and not (beside and name.endswith(beside)):
                    others.append(path)
        if not found:
            raise ArborvoxError(
                f"{source} holds no recordings; they end in {' '.join(sorted(AUDIO_ENDINGS))}."
            )
        if others:
            say(f"{source}: {len(others)} other files are left out, such as {others[0]}.")


def _targets(files: Sequence[tuple[Path, Path]], kind: str, out: Path | None) -> list[Path | None]:
    """Name the file that each transcript goes to; None is standard output."""
    if kind not in WRITERS:
        raise ArborvoxError(f"Unknown format '{kind}'; there are: {', '.join(WRITERS)}.")
    if out is None:
        return [None] * len(files)
    targets: dict[Path, Path] = {}
    for file, name in files:
        target = out / name.with_name(f"{name.name}.{ENDINGS.get(kind, kind)}")
        if target in targets:
            raise ArborvoxError(
                f"{targets[target]} and {file} would both be written to {target}; "
                f"transcribe them into two folders."
            )
        targets[target] = file
    return list(targets)


def _deliver(text: str, file: Path, target: Path | None, *, alone: bool) -> None:
    if target is not None:
        write_text_atomic(target, text)
        say(f"wrote {target}")
        return
    # Not through Rich, which would fold lines and read brackets as markup; as bytes, because a
    # name may be none that the terminal's encoding has.
    shown = text if alone else f"{file}:\n{text}"
    encoding = sys.stdout.encoding or "utf-8"
    try:
        data = shown.encode(encoding, "surrogateescape")
    except UnicodeEncodeError:
        data = shown.encode(encoding, "backslashreplace")
    with name_failed_writes(Path("standard output")):
        sys.stdout.flush()
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
