"""`arborvox prepare`: a folder of recordings becomes manifests.

The commands and their options are made from the corpus sections of the configuration when one is
asked for: a key's type, default and description are written there and nowhere else.
"""

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args, get_origin

import typer
from typer.core import TyperGroup

from arborvox.config.choices import CorpusKind, ShardFormat, values_of

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo

    from arborvox.config import CorpusConfig

Out = Annotated[Path, typer.Option("--out", help="The folder to write to.", show_default=False)]
Jobs = Annotated[
    int | None, typer.Option("--jobs", min=1, help="Processes; as many as cores if left out.")
]
Shards = Annotated[
    int | None,
    typer.Option(
        "--shards",
        min=1,
        max=1_000_000,
        help="Also pack the recordings into tar files of so many utterances each, 1000 for one.",
    ),
]
Format = Annotated[
    ShardFormat,
    typer.Option("--shard-format", help="What they are: a Lhotse Shar, or plain WebDataset tars."),
]
Strict = Annotated[bool, typer.Option("--strict", help="Any faulty input is an error (exit 2).")]
# The kind is the command's name, the source its argument; corpora in a corpus are for recipes.
NO_OPTIONS = ("kind", "source", "more")


class CorpusKinds(TyperGroup):
    """The commands, one for each kind of corpus."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the kinds."""
        return list(values_of(CorpusKind))

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Make the command for a kind."""
        if cmd_name not in values_of(CorpusKind):
            return None
        app = typer.Typer(rich_markup_mode="rich", add_completion=False)
        function = _make_function(cmd_name)
        help_text = (inspect.getdoc(function) or "").replace("[", "\\[")
        app.command(cmd_name, help=help_text)(function)
        return typer.main.get_command(app)


group = typer.Typer(
    cls=CorpusKinds,
    help="Turn a folder of recordings into manifests, split for training and testing.",
    no_args_is_help=True,
)


def register(app: typer.Typer) -> None:
    """Add the commands to the app."""
    app.add_typer(group, name="prepare")


def _make_function(kind: str) -> Callable[..., None]:
    """Make a function whose parameters are the keys of a corpus section, for Typer to read."""
    from arborvox.config import CORPUS_SECTIONS, CorpusConfig

    section = CORPUS_SECTIONS[kind]
    keys = [key for key in section.model_fields if _is_option(key, section.model_fields[key])]
    # What is a kind's own comes first, what it shares with ever more kinds after it.
    shared = {
        key: level
        for level, base in reversed(list(enumerate(section.__mro__)))
        for key in inspect.get_annotations(base)
    }
    common = CorpusConfig.model_fields
    keys.sort(key=lambda key: (key != "languages", shared[key], key in common))
    parameters = [
        _source_parameter(section),
        inspect.Parameter("out", inspect.Parameter.KEYWORD_ONLY, annotation=Out),
        *(_key_parameter(key, section) for key in keys),
        _parameter("shards", Shards, None),
        _parameter("shard_format", Format, "shar"),
        _parameter("jobs", Jobs, None),
        _parameter("strict", Strict, False),
    ]

    def prepare_kind(
        out: Path,
        shards: int | None,
        shard_format: ShardFormat,
        jobs: int | None,
        strict: bool,
        **options: Any,
    ) -> None:
        config = _prepare(kind, section, out, jobs, strict, options)
        if shards is not None:
            _pack(out, shards, shard_format, config.seed, jobs)

    prepare_kind.__doc__ = section.__doc__
    prepare_kind.__annotations__ = {p.name: p.annotation for p in parameters}
    vars(prepare_kind)["__signature__"] = inspect.Signature(parameters)
    return prepare_kind


def _is_option(key: str, field: "FieldInfo") -> bool:
    """Whether a key can be given to a command, and there is anything to choose."""
    if key in NO_OPTIONS:
        return False
    plain = _plain_type(field)
    return get_origin(plain) is not Literal or len(get_args(plain)) > 1


def _source_parameter(section: "type[CorpusConfig]") -> inspect.Parameter:
    told = section.model_fields["source"].description
    kind = str if section.takes_addresses else Path  # a path would lose a slash of an address
    if "source" in section.needed:
        argument = typer.Argument(help=told, show_default=False)
        return inspect.Parameter(
            "source", inspect.Parameter.KEYWORD_ONLY, annotation=Annotated[kind, argument]
        )
    return _parameter("source", Annotated[Path | None, typer.Argument(help=told)], None)


def _key_parameter(key: str, section: "type[CorpusConfig]") -> inspect.Parameter:
    """Turn a key into an option: a choice, a number, a text, or a list with commas between."""
    from arborvox.config.migration import renamed_values

    field = section.model_fields[key]
    name = _option_name(key)
    if key in section.needed:
        option = typer.Option(name, help=field.description, show_default=False)
        return inspect.Parameter(
            key, inspect.Parameter.KEYWORD_ONLY, annotation=Annotated[str, option]
        )
    if field.annotation is bool:
        name = f"{name}/--no-{name.removeprefix('--')}"
    default = field.default
    if isinstance(default, tuple):
        default = ",".join(map(str, default))
    option = typer.Option(name, help=field.description)
    if renamed_values(section.model_fields["kind"].default, key):
        # A text, so that the section can answer an old name with the new one.
        choices = "|".join(get_args(_plain_type(field)))
        option = typer.Option(name, help=field.description, metavar=f"[{choices}]")
        return _parameter(key, Annotated[str, option], default)
    return _parameter(key, Annotated[_option_type(field), option], default)


def _parameter(name: str, annotation: Any, default: Any) -> inspect.Parameter:
    kind = inspect.Parameter.KEYWORD_ONLY
    return inspect.Parameter(name, kind, annotation=annotation, default=default)


def _option_name(key: str) -> str:
    """`max_duration_s` is --max-duration: its help says that it is in seconds."""
    return f"--{key.removesuffix('_s').replace('_', '-')}"


def _option_type(field: "FieldInfo") -> Any:
    """Return a key's type as Typer knows it; bounds are the section's to check."""
    plain = _plain_type(field)
    text = str if _item_type(field) is not None else plain
    return text if field.default is not None else text | None


def _plain_type(field: "FieldInfo") -> Any:
    """Return the type of a key without its bounds and without None."""
    options = [_unbounded(part) for part in _parts(field.annotation)]
    return next(part for part in options if part is not type(None))


def _item_type(field: "FieldInfo") -> Any:
    """Return what a list has in it; None for what is no list."""
    plain = _plain_type(field)
    return _unbounded(get_args(plain)[0]) if get_origin(plain) is tuple else None


def _parts(annotation: Any) -> tuple[Any, ...]:
    plain = _unbounded(annotation)
    one = isinstance(plain, type) or get_origin(plain) in (Literal, tuple)
    return (plain,) if one else get_args(plain)


def _unbounded(annotation: Any) -> Any:
    return get_args(annotation)[0] if get_origin(annotation) is Annotated else annotation


def _prepare(
    kind: str,
    section: "type[CorpusConfig]",
    out: Path,
    jobs: int | None,
    strict: bool,
    options: dict[str, Any],
) -> "CorpusConfig":
    from arborvox.config import make_corpus_config
    from arborvox.corpora import prepare
    from arborvox.processes import count_cores

    data: dict[str, Any] = {"kind": kind}
    for key, value in options.items():
        item = _item_type(section.model_fields[key])
        if isinstance(value, Path):
            data[key] = str(value)
        else:
            data[key] = _split(value, item) if item is not None and value is not None else value
    places: dict[tuple[str, ...], str] = {("corpus", key): _option_name(key) for key in data}
    config = make_corpus_config(data, places)
    prepare(config, out, jobs=jobs or count_cores(), strict=strict)
    return config


def _pack(out: Path, per_shard: int, kind: ShardFormat, seed: int, jobs: int | None) -> None:
    from arborvox.corpora.manifests import SKIPPED_NAME, STATS_NAME
    from arborvox.processes import count_cores
    from arborvox.shards.packing import pack_manifests

    pack_manifests(
        out,
        per_shard,
        kind,
        seed=seed,
        jobs=jobs or count_cores(),
        seal=STATS_NAME,
        skipped=SKIPPED_NAME,
    )


def _split(text: str, item: Any) -> list[Any] | None:
    """Split `ca,es` into its names, or `2,3` into its numbers."""
    words = [word.strip() for word in text.split(",") if word.strip()]
    if item is int:
        try:
            return [int(word) for word in words]
        except ValueError:
            raise typer.BadParameter(f"{text}: write numbers such as 2,3,4") from None
    return words or None
