"""`arborvox export`: a trained model for places without torch, or without a server."""

from pathlib import Path
from typing import Annotated

import typer

from arborvox.config.choices import ExportPrecision, ExportTarget


def export(
    run: Annotated[Path, typer.Argument(help="Folder of a run, or of one of its checkpoints.")],
    to: Annotated[
        ExportTarget,
        typer.Option(help="ONNX graphs, sherpa-onnx's form, or a page that needs no server."),
    ],
    out: Annotated[Path, typer.Option(help="Folder to write.")],
    precision: Annotated[
        ExportPrecision | None,
        typer.Option(
            help="fp32; int8, a quarter of the size and faster; int8-weights, as small, computed "
            "in fp32; a page has the last."
        ),
    ] = None,
    leaves: Annotated[
        bool,
        typer.Option(
            "--leaves",
            help="With onnx: log-probabilities of all tokens also where the output is a tree.",
        ),
    ] = False,
    license: Annotated[
        str | None, typer.Option(help="The licence that the graph says it is under.")
    ] = None,
    ort_web: Annotated[
        Path | None,
        typer.Option(help="With page: the folder of onnxruntime-web, instead of asking npm."),
    ] = None,
) -> None:
    """Export a model: it then needs no torch, and as a page no server either."""
    if leaves and to != "onnx":
        raise typer.BadParameter("--leaves belongs to --to onnx.")
    if ort_web is not None and to != "page":
        raise typer.BadParameter("--ort-web belongs to --to page.")
    if to == "onnx":
        from arborvox.export.exporting import export_onnx

        export_onnx(run, out, precision=precision or "fp32", leaves=leaves, license=license)
    elif to == "sherpa":
        from arborvox.export.sherpa import export_sherpa

        export_sherpa(run, out, precision=precision or "fp32", license=license)
    else:
        from arborvox.export.page import PRECISION, export_page

        export_page(run, out, precision=precision or PRECISION, license=license, ort_web=ort_web)


def register(app: typer.Typer) -> None:
    """Add the command to the program."""
    app.command()(export)
