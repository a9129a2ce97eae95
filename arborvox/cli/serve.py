"""`arborvox serve`: models behind an API and a page."""

import os
from pathlib import Path
from typing import Annotated, Any

import typer

from arborvox.cli.decode import takes_search_options
from arborvox.errors import ArborvoxError

TOKEN_VARIABLE = "ARBORVOX_TOKEN"


@takes_search_options("inventory", "batch_s")
def serve(
    runs: Annotated[
        list[str] | None,
        typer.Argument(metavar="RUN…", help="Folders of runs; NAME=RUN gives one a name."),
    ] = None,
    host: Annotated[
        str, typer.Option(help="The address to listen on; others than this machine's need a token.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0: any that is free.")] = 8000,
    token_file: Annotated[
        Path | None,
        typer.Option(help=f"A file with the token that requests must bring; or {TOKEN_VARIABLE}."),
    ] = None,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(help="A Host header to answer to, exactly as browsers send it; repeatable."),
    ] = None,
    project: Annotated[
        Path | None,
        typer.Option(help="A project to correct on the page; its own model needs no naming."),
    ] = None,
    inventories: Annotated[
        Path | None, typer.Option(help="A folder of inventories, NAME.txt, to choose from.")
    ] = None,
    example: Annotated[
        list[Path] | None, typer.Option(help="A recording to try on the page; repeatable.")
    ] = None,
    words: Annotated[
        Path | None, typer.Option(help="The page's words in another language, a JSON file.")
    ] = None,
    workers: Annotated[
        int, typer.Option(min=1, max=64, help="Processes that recognize, each with all models.")
    ] = 1,
    max_upload_mb: Annotated[int, typer.Option(min=1, help="Size of a request.")] = 200,
    max_duration_s: Annotated[float, typer.Option(min=1, help="Length of a recording.")] = 7200.0,
    parallel: Annotated[int, typer.Option(min=1, help="Recordings worked on at a time.")] = 4,
    queue: Annotated[int, typer.Option(min=0, help="Recordings that may wait; then 429.")] = 64,
    max_time_s: Annotated[float, typer.Option(min=1, help="Time a request.")] = 600.0,
    idle_s: Annotated[float, typer.Option(min=1, help="Patience with silent clients.")] = 20.0,
    sessions: Annotated[int, typer.Option(min=0, help="People speaking at once.")] = 16,
    connections: Annotated[int, typer.Option(min=1, help="Connections at once.")] = 512,
    max_beam: Annotated[int, typer.Option(min=1, help="The widest beam to ask for.")] = 50,
    **options: Any,
) -> None:
    """Serve models on this machine: a page to record and read, and an API for programs.

    The API is that of OpenAI's clients (/v1/audio/transcriptions) and of Vosk's (/v1/listen). No
    recording is kept, and none leaves the machine. Search options are those of `transcribe`.
    """
    from importlib.util import find_spec

    if any(find_spec(name) is None for name in ("starlette", "uvicorn", "python_multipart")):
        raise ArborvoxError("Serving needs more packages: pip install 'arborvox[serve]'.")
    from arborvox.cli.decode import asked_config
    from arborvox.serve.log import start_logging
    from arborvox.serve.server import serve as run_server
    from arborvox.serve.settings import (
        Limits,
        ServeConfig,
        find_inventories,
        name_models,
        read_token,
    )

    if not runs and project is None:
        raise ArborvoxError("Name a run to serve, or a project with --project.")
    for path in example or []:
        if not path.is_file():
            raise ArborvoxError(f"There is no example {path}.")
    config = ServeConfig(
        models=name_models(runs or []),
        host=host,
        port=port,
        token=read_token(token_file) or os.environ.get(TOKEN_VARIABLE) or None,
        allowed_hosts=tuple(name.lower() for name in allow_host or ()),
        inventories=find_inventories(inventories),
        examples=tuple(example or ()),
        words=words,
        workers=workers,
        project=project,
        limits=Limits(
            upload_mb=max_upload_mb,
            duration_s=max_duration_s,
            parallel=parallel,
            queue=queue,
            time_s=max_time_s,
            idle_s=idle_s,
            sessions=sessions,
            connections=connections,
            beam=max_beam,
        ),
    )
    asked = asked_config(options)
    start_logging()
    run_server(config, {key: getattr(asked, key) for key in asked.model_fields_set})


def register(app: typer.Typer) -> None:
    """Add the command to the program."""
    app.command()(serve)
