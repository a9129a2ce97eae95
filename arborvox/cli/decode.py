"""`arborvox decode` and `arborvox transcribe`: from a trained model to text."""

import functools
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from arborvox.config.choices import (
    DependentTier,
    OutputFormat,
    Precision,
    SearchMode,
    VoiceActivity,
    values_of,
)

if TYPE_CHECKING:
    from arborvox.config import DecodeConfig

Run = Annotated[Path, typer.Argument(help="Folder of a run, or of one of its checkpoints.")]
# Where an option is left out, the model's own recipe decides.
SEARCH_OPTIONS: dict[str, Any] = {
    "mode": Annotated[
        SearchMode | None,
        typer.Option(help="The search; auto: joint where the model can, else a beam."),
    ],
    "beam": Annotated[int | None, typer.Option(min=1, help="Hypotheses kept at each step.")],
    "ctc_weight": Annotated[
        float | None,
        typer.Option(min=0, max=1, help="CTC's part of the score, where it shares one."),
    ],
    "lm": Annotated[
        Path | None, typer.Option(help="n-gram language model over the units, .arpa or .arpa.gz.")
    ],
    "lm_weight": Annotated[float | None, typer.Option(min=0, help="Weight of the language model.")],
    "length_bonus": Annotated[
        float | None, typer.Option(help="Added to the score for each unit written.")
    ],
    "inventory": Annotated[
        Path | None,
        typer.Option(help="The units the language has, one a line; no other is written."),
    ],
    "vad": Annotated[
        VoiceActivity | None,
        typer.Option(help="How pauses are found: by energy, or by silero where there is noise."),
    ],
    "back_off": Annotated[
        float | None,
        typer.Option(
            min=0,
            max=1,
            help="Describe phones of a lower probability, as `voiceless stop, place unsure`; for "
            "models over a tree of questions.",
        ),
    ],
    "precision": Annotated[
        Precision | None, typer.Option(help="auto: bf16 where the processor has it.")
    ],
    "batch_s": Annotated[
        float | None, typer.Option(min=1, help="Seconds of audio decoded together.")
    ],
    "device": Annotated[
        str | None, typer.Option(help="auto: a GPU where there is one; or cpu, cuda, cuda:N, mps.")
    ],
}


def takes_search_options(*left_out: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Let Typer see the options of a search, but for some, in a command's `**options`."""

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(command)
        def wrapped(**arguments: Any) -> None:
            command(**arguments)

        signature = inspect.signature(command)
        own = [each for each in signature.parameters.values() if each.name != "options"]
        options = [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=kind)
            for name, kind in SEARCH_OPTIONS.items()
            if name not in left_out
        ]
        wrapped.__signature__ = signature.replace(parameters=[*own, *options])  # type: ignore[attr-defined]
        hints = {each.name: each.annotation for each in (*own, *options)}
        wrapped.__annotations__ = {**hints, "return": None}
        return wrapped

    return decorate


@takes_search_options("vad")  # utterances are not cut
def decode(
    run: Run,
    manifest: Annotated[Path, typer.Argument(help="Cuts made by `arborvox prepare`, *.jsonl.gz.")],
    out: Annotated[
        Path, typer.Option(help="Where the hypotheses go; goes on where it stopped.")
    ] = Path("hyps.jsonl"),
    **options: Any,
) -> None:
    """Decode a test set, and tell where the time goes; `arborvox score` reads the result.

    The search is the one that the model's recipe was tuned with; options change it. Exit code 1:
    some recordings could not be read.

    Several processes: torchrun --nproc-per-node 2 -m arborvox decode RUN MANIFEST --out ...
    """
    from arborvox.decode.corpus_decoding import decode_manifest
    from arborvox.team import join_team

    with join_team() as team:
        decoded = decode_manifest(run, manifest, asked_config(options), out)
    if decoded.num_failed and team.first:
        raise typer.Exit(1)


@takes_search_options()
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
        OutputFormat,
        typer.Option(
            "--format",
            help="Text, JSON with times of words, subtitles, or tiers for ELAN or Praat.",
        ),
    ] = "txt",
    tier: Annotated[
        str, typer.Option(help="The name of the new tier, of eaf and textgrid.")
    ] = "arborvox",
    tiers: Annotated[
        str, typer.Option(help="Tiers that hang on it: words,units,confidence, or some of them.")
    ] = "",
    into: Annotated[
        Path | None,
        typer.Option(help="Add the tiers to this .eaf or .TextGrid, or to a copy in --out."),
    ] = None,
    segments_from: Annotated[
        str | None, typer.Option(help="With --into: hear only what this tier of it marks.")
    ] = None,
    **options: Any,
) -> None:
    """Write down what recordings say; long ones are split at their pauses.

    The search is the one that the model's recipe was tuned with; options change it. A file that
    cannot be read is named and does not stop the others. Exit code 1: some failed.

    Several processes: torchrun --nproc-per-node 2 -m arborvox transcribe RUN FOLDER --out ...
    """
    from arborvox.decode.transcript import TierLayout

    layout = TierLayout(tier, _parts(tiers))
    if into is not None:
        from arborvox.annotate import transcribe_into
        from arborvox.team import refuse_team

        refuse_team("--into is about one recording")
        if len(files) != 1 or files[0].is_dir():
            raise typer.BadParameter("--into takes the one recording that the file belongs to.")
        transcribe_into(
            run, files[0], asked_config(options), into, layout, segments_from=segments_from, out=out
        )
        return
    if segments_from is not None:
        raise typer.BadParameter("--segments-from names a tier of the file of --into.")
    from arborvox.team import join_team, team_size
    from arborvox.transcribe import transcribe_files

    if team_size() > 1 and out is None:
        raise typer.BadParameter("Several processes cannot share standard output; it needs --out.")
    with join_team() as team:
        num_failed = transcribe_files(
            run, files, asked_config(options), kind=kind, out=out, layout=layout
        )
    if num_failed and team.first:
        raise typer.Exit(1)


def _parts(text: str) -> tuple[DependentTier, ...]:
    """Read the names of dependent tiers, with commas between."""
    words = [word.strip() for word in text.split(",") if word.strip()]
    for word in words:
        if word not in values_of(DependentTier):
            known = ", ".join(values_of(DependentTier))
            raise typer.BadParameter(f"--tiers: there is no {word}; there are: {known}.")
    return cast("tuple[DependentTier, ...]", tuple(words))


def asked_config(options: dict[str, Any]) -> "DecodeConfig":
    """Return what was asked for; what was not is left open."""
    from arborvox.config import DecodeConfig

    return DecodeConfig(**{key: value for key, value in options.items() if value is not None})


def register(app: typer.Typer) -> None:
    """Add both commands to the program."""
    app.command()(decode)
    app.command()(transcribe)
