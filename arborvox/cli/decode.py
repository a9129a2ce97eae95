"""`arborvox decode` and `arborvox transcribe`: from a trained model to text."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from arborvox.config.choices import OutputFormat, Precision, SearchMode

if TYPE_CHECKING:
    from arborvox.config import DecodeConfig

Run = Annotated[Path, typer.Argument(help="Folder of a run, or of one of its checkpoints.")]
# Where an option is left out, the model's own recipe decides.
Mode = Annotated[
    SearchMode | None,
    typer.Option(help="The search; auto: joint where the model can, else a beam."),
]
Beam = Annotated[int | None, typer.Option(min=1, help="Hypotheses kept at each step.")]
CtcWeight = Annotated[
    float | None,
    typer.Option(min=0, max=1, help="CTC's part of the score, where it shares one."),
]
Lm = Annotated[
    Path | None, typer.Option(help="n-gram language model over the units, .arpa or .arpa.gz.")
]
LmWeight = Annotated[float | None, typer.Option(min=0, help="Weight of the language model.")]
LengthBonus = Annotated[
    float | None, typer.Option(help="Added to the score for each unit written.")
]
Inventory = Annotated[
    Path | None, typer.Option(help="The units the language has, one a line; no other is written.")
]
PrecisionOption = Annotated[
    Precision | None, typer.Option("--precision", help="auto: bf16 where the processor has it.")
]
BatchS = Annotated[
    float | None, typer.Option("--batch-s", min=1, help="Seconds of audio decoded together.")
]
Device = Annotated[
    str | None, typer.Option(help="auto: a GPU where there is one; or cpu, cuda, cuda:N, mps.")
]


def decode(
    run: Run,
    manifest: Annotated[Path, typer.Argument(help="Cuts made by `arborvox prepare`, *.jsonl.gz.")],
    out: Annotated[
        Path, typer.Option(help="Where the hypotheses go; goes on where it stopped.")
    ] = Path("hyps.jsonl"),
    mode: Mode = None,
    beam: Beam = None,
    ctc_weight: CtcWeight = None,
    lm: Lm = None,
    lm_weight: LmWeight = None,
    length_bonus: LengthBonus = None,
    inventory: Inventory = None,
    precision: PrecisionOption = None,
    batch_s: BatchS = None,
    device: Device = None,
) -> None:
    """Decode a test set, and tell where the time goes; `arborvox score` reads the result.

    The search is the one that the model's recipe was tuned with; options change it. Exit code 1:
    some recordings could not be read.
    """
    from arborvox.decode.corpus_decoding import decode_manifest

    config = _asked(
        mode=mode, beam=beam, ctc_weight=ctc_weight, lm=lm, lm_weight=lm_weight, device=device,
        length_bonus=length_bonus, inventory=inventory, precision=precision, batch_s=batch_s,
    )  # fmt: skip
    if decode_manifest(run, manifest, config, out).num_failed:
        raise typer.Exit(1)


def transcribe(
    run: Run,
    files: Annotated[
        list[Path],
        typer.Argument(
            help="Recordings of any format and length, or folders of them.", readable=False
        ),
    ],
    out: Annotated[
        Path | None, typer.Option(help="Folder for the transcripts; standard output if left out.")
    ] = None,
    kind: Annotated[
        OutputFormat, typer.Option("--format", help="Text, JSON with times of words, or subtitles.")
    ] = "txt",
    mode: Mode = None,
    beam: Beam = None,
    ctc_weight: CtcWeight = None,
    lm: Lm = None,
    lm_weight: LmWeight = None,
    length_bonus: LengthBonus = None,
    inventory: Inventory = None,
    precision: PrecisionOption = None,
    batch_s: BatchS = None,
    device: Device = None,
) -> None:
    """Write down what recordings say; long ones are split at their pauses.

    The search is the one that the model's recipe was tuned with; options change it. A file that
    cannot be read is named and does not stop the others. Exit code 1: some failed.
    """
    from arborvox.recognizer import transcribe_files

    config = _asked(
        mode=mode, beam=beam, ctc_weight=ctc_weight, lm=lm, lm_weight=lm_weight, device=device,
        length_bonus=length_bonus, inventory=inventory, precision=precision, batch_s=batch_s,
    )  # fmt: skip
    if transcribe_files(run, files, config, kind=kind, out=out):
        raise typer.Exit(1)


def _asked(**options: Any) -> "DecodeConfig":
    """Return what was asked for; what was not is left open."""
    from arborvox.config import DecodeConfig

    return DecodeConfig(**{key: value for key, value in options.items() if value is not None})


def register(app: typer.Typer) -> None:
    """Add both commands to the program."""
    app.command()(decode)
    app.command()(transcribe)
