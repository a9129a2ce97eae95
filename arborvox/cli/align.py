"""`arborvox align`: when the words of a known text were said."""

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from arborvox.config.choices import AlignmentFormat, Precision, VoiceActivity


def align(
    run: Annotated[Path, typer.Argument(help="Folder of a run, or of one of its checkpoints.")],
    source: Annotated[
        Path, typer.Argument(help="A recording of any length, or a manifest, *.jsonl.gz.")
    ],
    text: Annotated[
        Path | None,
        typer.Argument(
            help="What is said in the recording, a line an utterance; a manifest has it."
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="The file to write, standard output if left out; a manifest's folder."),
    ] = None,
    kind: Annotated[
        AlignmentFormat,
        typer.Option("--format", help="For Praat, ELAN, programs, or Kaldi's tools."),
    ] = "textgrid",
    language: Annotated[
        str | None, typer.Option(help="Normalize the text as this language's was, such as sah.")
    ] = None,
    exact: Annotated[
        bool,
        typer.Option("--exact", help="The text is just what was said: pass no word over."),
    ] = False,
    shift: Annotated[
        float,
        typer.Option(
            min=-1,
            max=1,
            help="Seconds that all times are moved by: CTC is late, so a negative one.",
        ),
    ] = 0.0,
    vad: Annotated[
        VoiceActivity | None,
        typer.Option(help="How pauses are found: by energy, or by silero where there is noise."),
    ] = None,
    precision: Annotated[
        Precision | None, typer.Option(help="auto: bf16 where the processor has it.")
    ] = None,
    device: Annotated[
        str | None, typer.Option(help="auto: a GPU where there is one; or cpu, cuda, cuda:N, mps.")
    ] = None,
) -> None:
    """Find when the words of a known text were said, and how well they fit.

    The text may lack words that are said and have words that are not. Utterances that do not fit
    are named with their score. Exit code 1: some recordings of a manifest could not be read.
    """
    from arborvox.align import align_manifest, align_recording
    from arborvox.config import DecodeConfig
    from arborvox.files import write_text_atomic
    from arborvox.team import join_team, refuse_team

    asked: dict[str, Any] = {"vad": vad, "precision": precision, "device": device}
    config = DecodeConfig(**{key: value for key, value in asked.items() if value is not None})
    if source.name.endswith((".jsonl", ".jsonl.gz")):
        if text is not None or language is not None or out is None:
            raise typer.BadParameter("A manifest has its texts; it needs --out, a folder, alone.")
        with join_team() as team:
            num_failed = align_manifest(run, source, config, kind=kind, out=out, shift_s=shift)
        if num_failed and team.first:
            raise typer.Exit(1)
        return
    if text is None:
        raise typer.BadParameter("A recording needs the file with its text.")
    refuse_team("one recording is aligned as a whole; a manifest can be shared out")
    done = align_recording(
        run, source, text, config, kind=kind, language=language, exact=exact, shift_s=shift
    )
    if out is None:
        sys.stdout.buffer.write(done.encode())
        sys.stdout.buffer.flush()
    else:
        write_text_atomic(out, done)


def register(app: typer.Typer) -> None:
    """Add the command to the program."""
    app.command()(align)
