"""`arborvox tree`: build, look at and compare code trees."""

from pathlib import Path
from typing import Annotated

import typer

from arborvox.config.choices import ColorBy, TreeKind, UnitOrder, Weighting

TreeFile = Annotated[Path, typer.Argument(help="A tree.json.")]
TokensBeside = Annotated[
    Path | None,
    typer.Option(help="The tokens of the tree.  [default: tokens.json beside the tree, if any]"),
]

tree_app = typer.Typer(
    no_args_is_help=True, help="Build, look at and compare the code trees over the units."
)


@tree_app.command("build")
def build(
    tokens: Annotated[Path, typer.Option(help="The vocabulary: a tokens.json.")],
    out: Annotated[Path, typer.Option(help="Where to write the tree.")] = Path("tree.json"),
    kind: Annotated[TreeKind, typer.Option(help="How the tree is built.")] = "huffman",
    manifests: Annotated[
        list[Path] | None,
        typer.Option(help="Count these instead of what the tokens were built from; repeatable."),
    ] = None,
    weighting: Annotated[
        Weighting, typer.Option(help="Each language weighs the same, or each unit written.")
    ] = "language",
    seed: Annotated[int, typer.Option(help="Which tree is drawn, for the kinds drawn by lot.")] = 0,
    embedding_from: Annotated[
        Path | None,
        typer.Option(help="For an embedding tree: the run or checkpoint folder of a model."),
    ] = None,
) -> None:
    """Build a tree over a vocabulary."""
    from arborvox.tokens.reports import make_tree

    if embedding_from is not None and embedding_from.is_dir():
        from arborvox.model.checkpoint import find_checkpoint

        embedding_from = find_checkpoint(embedding_from)
    make_tree(
        tokens,
        out,
        kind,
        manifests=manifests or [],
        weighting=weighting,
        seed=seed,
        embedding_from=embedding_from,
    )


@tree_app.command("show")
def show(
    tree: TreeFile,
    tokens: TokensBeside = None,
    sort: Annotated[UnitOrder, typer.Option(help="Order of the list.")] = "mass",
) -> None:
    """Print codes, depths and languages of all units, and the code length against the entropy."""
    from arborvox.tokens.reports import show_tree

    show_tree(tree, tokens, sort)


@tree_app.command("draw")
def draw(
    picture: Annotated[Path, typer.Argument(help="The picture to draw, .svg or .png.")],
    tree: Annotated[
        Path | None,
        typer.Option(help="The tree.  [default: the picture's name with .json]"),
    ] = None,
    tokens: TokensBeside = None,
    color: Annotated[
        ColorBy,
        typer.Option(help="By language, by script, or by how many languages share a unit."),
    ] = "language",
    title: Annotated[str, typer.Option(help="What stands above the picture.")] = "",
) -> None:
    """Draw a tree: depth is the length of the code, a branch's width its mass."""
    from arborvox.tokens.reports import picture_tree

    picture_tree(tree or picture.with_suffix(".json"), picture, tokens, color, title)


@tree_app.command("compare")
def compare(first: TreeFile, second: TreeFile) -> None:
    """Print how two trees over the same units differ."""
    from arborvox.tokens.reports import show_comparison

    show_comparison(first, second)


@tree_app.command("why")
def why(
    tree: TreeFile,
    unit: Annotated[str, typer.Argument(help='A unit; the space is " ".')],
    other: Annotated[str, typer.Argument(help="Another unit.")],
) -> None:
    """Explain why two units are siblings, or where their ways part."""
    from arborvox.tokens.reports import show_meeting

    show_meeting(tree, unit, other)


@tree_app.command("gallery")
def gallery(
    out: Annotated[Path, typer.Option(help="The folder for trees and pictures.")],
    text: Annotated[
        Path | None, typer.Option(help="A folder of <language>.txt files: trees of characters.")
    ] = None,
    phones: Annotated[
        Path | None,
        typer.Option(help="The UCLA corpus, or a prepared corpus of phones: trees of phones."),
    ] = None,
) -> None:
    """Make trees, pictures and heat maps for each language group, for all, and for phones."""
    from arborvox.corpora.manifests import GROUP_OF
    from arborvox.corpora.ucla import PAPER_TEST_LANGUAGES
    from arborvox.tokens.gallery import make_gallery

    make_gallery(out, text=text, phones=phones, groups=GROUP_OF, unheard=PAPER_TEST_LANGUAGES)


def register(app: typer.Typer) -> None:
    """Add `arborvox tree` to the program."""
    app.add_typer(tree_app, name="tree")
