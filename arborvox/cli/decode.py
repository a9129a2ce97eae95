"""`arborvox decode` and `arborvox transcribe`: from a trained model to text."""

from pathlib import Path
from typing import Annotated

import typer

from arborvox.config.choices import OutputFormat, Precision, SearchMode

Run = Annotated[Path, typer.Argument(help="Folder of a run, or of one of its checkpoints.")]
ModeOption = Annotated[
    SearchMode,
    typer.Option("--mode", help="The search; auto: joint where the model can, else a beam."),
]
Beam = Annotated[int, typer.Option(min=1, help="Hypotheses kept at each step.")]
CtcWeight = Annotated[
    float, typer.Option(min=0, max=1, help="joint, rescoring: CTC's part of the score.")
]
Lm = Annotated[
    Path | None, typer.Option(help="n-gram language model over the units, .arpa or .arpa.gz.")
]
LmWeight = Annotated[float, typer.Option(min=0, help="Weight of the language model.")]
LengthBonus = Annotated[float, typer.Option(help="Added to the score for each unit written.")]
Inventory = Annotated[
    Path | None, typer.Option(help="The units the language has, one a line; no other is written.")
]
PrecisionOption = Annotated[
    Precision, typer.Option("--precision", help="auto: bf16 where the processor has it.")
]
BatchS = Annotated[
    float, typer.Option("--batch-s", min=1, help="Seconds of audio decoded together.")
]


def decode(
    run: Run,
    manifest: Annotated[Path, typer.Argument(help="Cuts made by `arborvox prepare`, *.jsonl.gz.")],
    out: Annotated[
        Path, typer.Option(help="Where the hypotheses go; goes on where it stopped.")
    ] = Path("hyps.jsonl"),
    mode: ModeOption = "auto",
    beam: Beam = 10,
    ctc_weight: CtcWeight = 0.3,
    lm: Lm = None,
    lm_weight: LmWeight = 0.3,
    length_bonus: LengthBonus = 0.0,
    inventory: Inventory = None,
    precision: PrecisionOption = "auto",
    batch_s: BatchS = 160.0,
) -> None:
    """Decode a test set, and tell where the time goes; `arborvox score` reads the result.

    Exit code 1: some recordings could not be read.
    """
    from arborvox.decode.engine import DecodeConfig
    from arborvox.decode.test_set import decode_manifest

    config = DecodeConfig(
        mode=mode, beam=beam, ctc_weight=ctc_weight, lm=lm, lm_weight=lm_weight,
        length_bonus=length_bonus, inventory=inventory, precision=precision, batch_s=batch_s,
    )  # fmt: skip
    if decode_manifest(run, manifest, config, out).num_failed:
        raise typer.Exit(1)


def transcribe(
    run: Run,
    files: Annotated[
        list[Path],
        typer.Argument(help="Recordings of any format and length.", readable=False),
    ],
    out: Annotated[
        Path | None, typer.Option(help="Folder for the transcripts; standard output if left out.")
    ] = None,
    kind: Annotated[
        OutputFormat, typer.Option("--format", help="Text, JSON with times of words, or subtitles.")
    ] = "txt",
    mode: ModeOption = "auto",
    beam: Beam = 10,
    ctc_weight: CtcWeight = 0.3,
    lm: Lm = None,
    lm_weight: LmWeight = 0.3,
    length_bonus: LengthBonus = 0.0,
    inventory: Inventory = None,
    precision: PrecisionOption = "auto",
    batch_s: BatchS = 160.0,
) -> None:
    """Write down what recordings say; long ones are split at their pauses.

    A file that cannot be read is named and does not stop the others. Exit code 1: some failed.
    """
    from arborvox.decode.engine import DecodeConfig
    from arborvox.recognizer import transcribe_files

    config = DecodeConfig(
        mode=mode, beam=beam, ctc_weight=ctc_weight, lm=lm, lm_weight=lm_weight,
        length_bonus=length_bonus, inventory=inventory, precision=precision, batch_s=batch_s,
    )  # fmt: skip
    if transcribe_files(run, files, config, kind=kind, out=out):
        raise typer.Exit(1)


def register(app: typer.Typer) -> None:
    """Add both commands to the program."""
    app.command()(decode)
    app.command()(transcribe)
