"""`arborvox prepare`: a folder of recordings becomes manifests."""

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

group = typer.Typer(
    help="Turn a folder of recordings into manifests, split for training and testing.",
    no_args_is_help=True,
)

Source = Annotated[Path, typer.Argument(help="The folder to read.", show_default=False)]
Out = Annotated[Path, typer.Option("--out", help="The folder to write to.", show_default=False)]
Languages = Annotated[str | None, typer.Option("--languages", help="Only these, such as ca,es,it.")]
Seed = Annotated[int, typer.Option("--seed", help="Another seed draws another split.")]
Jobs = Annotated[
    int | None, typer.Option("--jobs", help="Processes; as many as cores if left out.")
]
Strict = Annotated[bool, typer.Option("--strict", help="Any faulty input is an error (exit 2).")]
Check = Annotated[
    Literal["auto", "headers", "decode"],
    typer.Option(
        "--check",
        help="How recordings are looked at: headers, decode (whole), auto (decode up to 20,000).",
    ),
]
MaxDuration = Annotated[
    float, typer.Option("--max-duration", help="Leave out what is longer, in seconds.")
]
MinDuration = Annotated[
    float, typer.Option("--min-duration", help="Leave out what is shorter, in seconds.")
]
Digits = Annotated[
    Literal["reject", "drop", "keep"],
    typer.Option("--digits", help="Sentences with digits: reject, drop the digits, or keep."),
]
Foreign = Annotated[
    Literal["reject", "drop", "keep"],
    typer.Option(
        "--foreign", help="Letters of another script: reject the sentence, drop, or keep."
    ),
]
Unit = Annotated[
    Literal["text", "phones"],
    typer.Option(
        "--unit",
        help="What is to be learned: text, or phones: those of a folder, or read by espeak-ng.",
    ),
]
Alpha = Annotated[
    float, typer.Option("--alpha", help="How much small languages are favoured: 1 not, 0 fully.")
]
Ratio = Annotated[
    float | None, typer.Option("--ratio", help="Share of the training hours to keep, all told.")
]
Hours = Annotated[
    float | None, typer.Option("--hours", help="Hours of training to keep, all languages together.")
]
Split = Annotated[
    Literal["speaker", "paper", "official"],
    typer.Option(
        "--split",
        help="speaker: no speaker and no sentence on two sides; paper: random utterances; "
        "official: the release's own.",
    ),
]


def register(app: typer.Typer) -> None:
    """Add the commands to the app."""
    app.add_typer(group, name="prepare")


@group.command("common-voice")
def common_voice(
    source: Source,
    out: Out,
    languages: Languages = None,
    split: Split = "speaker",
    alpha: Alpha = 0.5,
    ratio: Ratio = None,
    hours: Hours = None,
    unit: Unit = "text",
    digits: Digits = "reject",
    foreign: Foreign = "reject",
    check: Check = "auto",
    min_duration: MinDuration = 0.1,
    max_duration: MaxDuration = 30.0,
    seed: Seed = 0,
    jobs: Jobs = None,
    strict: Strict = False,
) -> None:
    """A Common Voice release, or language folders of one (validated.tsv and clips/).

    Training hours are thinned out by the paper's rule, λ_i = p_i^(α−1) / Σ_j p_j^α · λ; the test
    set is the lesser of 10 % and 10,000 utterances of each language.
    """
    _prepare(
        "common-voice", source, out, jobs, strict,
        languages=_names(languages), split=split, alpha=alpha, ratio=ratio, hours=hours,
        unit=unit, digits=digits, foreign=foreign, check=check,
        min_duration_s=min_duration, max_duration_s=max_duration, seed=seed,
    )  # fmt: skip


@group.command("ucla")
def ucla(
    source: Source,
    out: Out,
    languages: Languages = None,
    test_languages: Annotated[
        str | None,
        typer.Option(
            "--test-languages", help="Never heard in training; the paper's ten if left out."
        ),
    ] = None,
    dev: Annotated[
        Literal["utterances", "languages"],
        typer.Option("--dev", help="Held out for development: utterances, or whole languages."),
    ] = "utterances",
    check: Check = "auto",
    min_duration: MinDuration = 0.1,
    max_duration: MaxDuration = 30.0,
    seed: Seed = 0,
    jobs: Jobs = None,
    strict: Strict = False,
) -> None:
    """The UCLA Phonetic Corpus: phones of 95 languages, ten of them only for testing."""
    _prepare(
        "ucla", source, out, jobs, strict,
        languages=_names(languages), test_languages=_names(test_languages), dev=dev, unit="phones",
        check=check, min_duration_s=min_duration, max_duration_s=max_duration, seed=seed,
    )  # fmt: skip


@group.command("folder")
def folder(
    source: Annotated[
        Path,
        typer.Argument(
            help="Audio with .txt files beside it, a Kaldi folder, or a csv, tsv or jsonl table.",
            show_default=False,
        ),
    ],
    out: Out,
    language: Annotated[
        str | None, typer.Option("--language", help="The language of it all, such as sah.")
    ] = None,
    languages: Languages = None,
    audio_root: Annotated[
        str | None,
        typer.Option(
            "--audio-root", help="Where a table's audio lies; its own folder if left out."
        ),
    ] = None,
    audio_column: Annotated[str, typer.Option(help="The table's column of audio files.")] = "path",
    text_column: Annotated[str, typer.Option(help="The table's column of texts.")] = "text",
    speaker_column: Annotated[str, typer.Option(help="Its column of speakers.")] = "speaker",
    language_column: Annotated[str, typer.Option(help="Its column of languages.")] = "language",
    split: Annotated[
        Literal["speaker", "paper"],
        typer.Option("--split", help="By speaker, where there are enough; paper: by sentence."),
    ] = "speaker",
    unit: Unit = "text",
    digits: Digits = "reject",
    foreign: Foreign = "reject",
    check: Check = "auto",
    min_duration: MinDuration = 0.1,
    max_duration: MaxDuration = 30.0,
    seed: Seed = 0,
    jobs: Jobs = None,
    strict: Strict = False,
) -> None:
    """Your own recordings, in any of three shapes."""
    columns = {
        "language": language, "audio_root": audio_root, "audio_column": audio_column,
        "text_column": text_column, "speaker_column": speaker_column,
        "language_column": language_column,
    }  # fmt: skip
    _prepare(
        "folder", source, out, jobs, strict,
        languages=_names(languages), split=split, unit=unit, digits=digits, foreign=foreign,
        check=check, min_duration_s=min_duration, max_duration_s=max_duration, seed=seed,
        folder=columns,
    )  # fmt: skip


@group.command("synthetic")
def synthetic(
    out: Out,
    languages: Annotated[
        str, typer.Option("--languages", help="Such as ca,es,it.", show_default=False)
    ],
    corpus: Annotated[
        Path | None,
        typer.Argument(help="Where the spoken corpus goes; OUT/corpus if left out."),
    ] = None,
    text: Annotated[
        str | None,
        typer.Option("--text", help="A folder with <language>.txt, a sentence a line."),
    ] = None,
    sentences: Annotated[int, typer.Option(help="How many, for each language.")] = 200,
    speakers: Annotated[int, typer.Option(help="How many voices, for each language.")] = 12,
    names: Annotated[
        str,
        typer.Option(help="Without --text: names in a sentence, by lot; 1 makes single words."),
    ] = "2,3,4",
    words: Annotated[
        str | None,
        typer.Option(help="With --text: pieces of this many words, by lot, not sentences."),
    ] = None,
    unit: Unit = "text",
    split: Split = "speaker",
    digits: Digits = "reject",
    foreign: Foreign = "reject",
    seed: Seed = 0,
    jobs: Jobs = None,
) -> None:
    """A corpus made on the spot with espeak-ng (needs the extra: pip install arborvox\\[demo])."""
    _prepare(
        "synthetic", corpus, out, jobs, False,
        languages=_names(languages), unit=unit, split=split, digits=digits, foreign=foreign,
        seed=seed, synthetic={
            "text": text, "sentences": sentences, "speakers": speakers, "names": _numbers(names),
            "words": None if words is None else _numbers(words),
        },
    )  # fmt: skip


def _prepare(
    kind: str, source: Path | None, out: Path, jobs: int | None, strict: bool, **keys: Any
) -> None:
    from arborvox.config import make_corpus_config
    from arborvox.corpora import prepare
    from arborvox.processes import count_cores

    config = make_corpus_config({"kind": kind, "source": str(source) if source else None, **keys})
    prepare(config, out, jobs=jobs or count_cores(), strict=strict)


def _numbers(text: str) -> list[int]:
    """Split `2,3` into its numbers."""
    try:
        return [int(number) for number in text.split(",")]
    except ValueError:
        raise typer.BadParameter(f"{text}: write numbers such as 2,3,4") from None


def _names(text: str | None) -> list[str] | None:
    """Split `ca,es` into its names."""
    return [name.strip() for name in text.split(",") if name.strip()] if text else None
