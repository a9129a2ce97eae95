"""`arborvox tokens`: the units that a model writes."""

from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from arborvox.config.choices import Unit


class BuildByDefault(TyperGroup):
    """A group whose `build` need not be named: `arborvox tokens MANIFEST --out tokens.json`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Put `build` in front of anything that is neither a command nor a call for help."""
        if args and args[0] not in {*self.commands, *ctx.help_option_names}:
            args = ["build", *args]
        return super().parse_args(ctx, args)


tokens_app = typer.Typer(
    cls=BuildByDefault,
    no_args_is_help=True,
    help="Collect the units of a corpus and compare languages by them. "
    "`tokens MANIFESTS…` is short for `tokens build MANIFESTS…`.",
)


@tokens_app.command("build")
def build(
    manifests: Annotated[
        list[Path],
        typer.Argument(
            help="Manifests (*.jsonl.gz), prepared folders (their training cuts), text files "
            "(<language>.txt, a sentence a line) or folders of these."
        ),
    ],
    out: Annotated[Path, typer.Option(help="Where to write the tokens.")] = Path("tokens.json"),
    unit: Annotated[
        Unit, typer.Option(help="Characters, space-separated phones, or BPE.")
    ] = "char",
    vocab_size: Annotated[
        int, typer.Option(min=4, help="BPE: size of the whole vocabulary, special tokens included.")
    ] = 500,
    graphemes: Annotated[
        bool, typer.Option("--graphemes", help="char: a letter with its marks is one unit.")
    ] = False,
    byte_fallback: Annotated[
        bool, typer.Option("--byte-fallback", help="bpe: write unknown characters as bytes.")
    ] = False,
    language_tags: Annotated[
        bool, typer.Option("--language-tags", help="Begin each utterance with its language's tag.")
    ] = False,
    more: Annotated[
        list[Path] | None,
        typer.Option(
            help="A file of units, one a line, that get a token even if the corpus has none of "
            "them; repeatable."
        ),
    ] = None,
    languages: Annotated[
        str | None, typer.Option(help="Only these languages, separated by commas: ca,es,fr.")
    ] = None,
) -> None:
    """Collect and count the units of a corpus: what the model can write."""
    from arborvox.tokens.reports import make_tokens

    make_tokens(
        manifests,
        out,
        unit,
        languages=split_names(languages),
        vocab_size=vocab_size,
        graphemes=graphemes,
        byte_fallback=byte_fallback,
        language_tags=language_tags,
        more=more or [],
    )


@tokens_app.command("languages")
def compare_languages(
    tokens: Annotated[Path, typer.Argument(help="A tokens.json with several languages.")],
    out: Annotated[Path, typer.Option(help="The picture, .svg or .png.")] = Path("languages.svg"),
) -> None:
    """Draw a heat map of how close the languages are by the units they use."""
    from arborvox.tokens.reports import show_closeness

    show_closeness(tokens, out)


def split_names(names: str | None) -> list[str] | None:
    """Split a list of names at its commas."""
    return None if names is None else [name.strip() for name in names.split(",") if name.strip()]


def register(app: typer.Typer) -> None:
    """Add `arborvox tokens` to the program."""
    app.add_typer(tokens_app, name="tokens")
