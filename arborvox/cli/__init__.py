"""The command line: one Typer app; each command parses, then makes one call.

Nothing heavy is imported here: `--help` must answer at once.
"""

import os
import sys
from io import TextIOWrapper
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from arborvox.cli import (
    align,
    config,
    decode,
    doctor,
    elan,
    export,
    lm,
    prepare,
    project,
    run,
    score,
    serve,
    tokens,
    train,
    tree,
    tune,
)
from arborvox.errors import ArborvoxError, harmless
from arborvox.version import VERSION

USUAL = """run prepare tokens tree train lm tune decode score compare report
transcribe align serve project learn export""".split()


# What several processes can do together, under torchrun.
SHARED = ("train", "decode", "transcribe", "align", "run")


class InOrderOfUse(TyperGroup):
    """Lists the commands in the order in which a project needs them."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names, those of the usual way first."""
        return USUAL + [name for name in super().list_commands(ctx) if name not in USUAL]


app = typer.Typer(
    name="arborvox",
    cls=InOrderOfUse,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)
# These may stand anywhere on the line, not only before the command.
GLOBAL_FLAGS = frozenset({"--quiet", "--verbose", "--traceback"})


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"arborvox {VERSION}")
        raise typer.Exit


@app.callback()
def start(
    context: typer.Context,
    quiet: Annotated[bool, typer.Option("--quiet", help="Only warnings and errors.")] = False,
    verbose: Annotated[bool, typer.Option("--verbose", help="Every detail.")] = False,
    traceback: Annotated[
        bool, typer.Option("--traceback", help="Show where in the code an error arose.")
    ] = False,
    version: Annotated[
        bool,
        typer.Option("--version", help="Print the version.", callback=_show_version, is_eager=True),
    ] = False,
) -> None:
    """Speech recognition for languages with little data.

    `run` does a whole experiment from a recipe. Step by step: a corpus folder becomes manifests
    (prepare), the manifests become output units and a code tree over them (tokens, tree), with
    these a model is trained (train), tested (decode, score, compare) and used (transcribe).
    """
    if quiet and verbose:
        raise ArborvoxError("--quiet and --verbose exclude each other.")
    from arborvox.console import set_verbosity
    from arborvox.team import team_rank, team_size

    if team_size() > 1 and context.invoked_subcommand not in SHARED:
        raise ArborvoxError(
            f"torchrun is for {', '.join(SHARED)}; start `arborvox {context.invoked_subcommand}` "
            "without it."
        )
    # Of many processes one speaks; all may warn.
    set_verbosity(quiet=quiet or team_rank() > 0, verbose=verbose)


for module in (
    run,
    prepare,
    tokens,
    tree,
    train,
    lm,
    tune,
    decode,
    align,
    serve,
    project,
    export,
    elan,
    score,
    config,
    doctor,
):
    module.register(app)


def main(arguments: list[str] | None = None) -> None:
    """Run the command line; mistakes become one sentence on standard error and exit code 2."""
    words = _flags_first(sys.argv[1:] if arguments is None else arguments)
    if isinstance(sys.stdout, TextIOWrapper):  # a terminal may not know every script
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        app(words)
    except ArborvoxError as error:
        _fail(str(error), code=2, show="--traceback" in words)
    except BrokenPipeError:
        # The reader of our output has left; leave quietly, as other tools do.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except OSError as error:
        named = f"{error.filename}: " if error.filename else ""
        _fail(f"{named}{error.strerror or error}.", code=2, show="--traceback" in words)
    except KeyboardInterrupt:
        _fail("stopped.", code=130, show=False)
    except Exception as error:
        told = f"{type(error).__name__}: {error}"
        message = f"this is a fault of arborvox itself ({told}); --traceback shows where."
        _fail(message, code=1, show="--traceback" in words)


def _flags_first(words: list[str]) -> list[str]:
    """Move the flags that belong to the whole app to the front, wherever they were written."""
    end = words.index("--") if "--" in words else len(words)
    flags = [word for word in words[:end] if word in GLOBAL_FLAGS]
    return flags + [word for word in words[:end] if word not in GLOBAL_FLAGS] + words[end:]


def _fail(message: str, *, code: int, show: bool) -> None:
    """Print an error, with its traceback if that was asked for, and leave."""
    if show:
        import traceback

        traceback.print_exc()
    typer.secho("error: ", fg="red", bold=True, nl=False, err=True)
    typer.echo(harmless(message), err=True)
    sys.exit(code)
