"""Every route of the server."""

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, PlainTextResponse, Response
from starlette.routing import BaseRoute, Route, WebSocketRoute
from starlette.types import ASGIApp

from arborvox.serve.asked import model_of
from arborvox.serve.bench import Bench
from arborvox.serve.corrections import Corrections
from arborvox.serve.documents import write_document
from arborvox.serve.guard import Guard
from arborvox.serve.lessons import Lessons
from arborvox.serve.live import Listening
from arborvox.serve.messages import ModelFacts
from arborvox.serve.page_files import PageFiles
from arborvox.serve.refusals import ApiError
from arborvox.serve.service import Service
from arborvox.serve.transcriptions import Transcriptions
from arborvox.version import VERSION


def make_app(service: Service, page: PageFiles, bench: Bench | None = None) -> ASGIApp:
    """Put the routes together, behind the guard; those of a project where there is one."""
    routes: list[BaseRoute] = [
        Route("/", page.index),
        Route("/favicon.ico", page.icon),
        Route("/page/{name}", page.file),
        Route("/healthz", _health),
        Route("/metrics", _metrics),
        Route("/v1/models", _models),
        Route("/v1/models/{name}", _model),
        Route("/v1/models/{name}/tree", _tree),
        Route("/v1/examples", _examples),
        Route("/v1/examples/{number:int}", _example),
        Route("/v1/documents/{format}", write_document, methods=["POST"]),
        Route("/v1/audio/transcriptions", Transcriptions(service), methods=["POST"]),
        WebSocketRoute("/v1/listen", Listening(service).listen),
    ]
    if bench is None:
        routes.append(Route("/v1/project", _no_project))
    else:
        routes += [Route("/project", page.project), *Corrections(bench).routes]
        routes += Lessons(bench).routes
    app = Starlette(routes=routes, exception_handlers={HTTPException: _no_route, ApiError: _refuse})
    app.state.service = service
    return Guard(
        app,
        hosts=service.config.hosts,
        token=service.config.token,
        gate=service.gate,
        metrics=service.metrics,
    )


def _service(request: Request) -> Service:
    service: Service = request.app.state.service
    return service


async def _health(request: Request) -> Response:
    """Say whether speech is recognized now."""
    service = _service(request)
    is_well = service.dispatcher.is_ready and not service.gate.is_closed
    status = "ok" if is_well else "stopping" if service.gate.is_closed else "starting"
    return JSONResponse({"status": status, "version": VERSION}, 200 if is_well else 503)


async def _metrics(request: Request) -> Response:
    text = _service(request).metrics.render()
    return PlainTextResponse(text, media_type="text/plain; version=0.0.4; charset=utf-8")


async def _models(request: Request) -> Response:
    models = _service(request).models.values()
    return JSONResponse({"object": "list", "data": [_describe(facts) for facts in models]})


async def _model(request: Request) -> Response:
    return JSONResponse(_describe(model_of(_service(request).models, request.path_params["name"])))


async def _tree(request: Request) -> Response:
    """Give the tree whose paths a transcription tells of; null for a softmax."""
    facts = model_of(_service(request).models, request.path_params["name"])
    return JSONResponse(facts.tree)


def _describe(facts: ModelFacts) -> dict[str, object]:
    return {
        "id": facts.name,
        "object": "model",
        "created": facts.created,
        "owned_by": "arborvox",
        "languages": facts.languages,
        "inventories": facts.inventories,
        "unit": facts.unit,
        "mode": facts.mode,
        "modes": facts.modes,
        "beam": facts.beam,
        "has_tree": facts.tree is not None,
    }


async def _examples(request: Request) -> Response:
    files = _service(request).config.examples
    return JSONResponse([{"number": n, "name": path.name} for n, path in enumerate(files)])


async def _example(request: Request) -> Response:
    files, number = _service(request).config.examples, request.path_params["number"]
    if not 0 <= number < len(files):
        raise ApiError(404, "There is no such example.")
    return FileResponse(files[number], media_type="application/octet-stream")


async def _no_project(request: Request) -> Response:
    """Say that there is none, so that a page can ask."""
    return JSONResponse(None)


async def _no_route(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    sentence = {404: "There is no such address.", 405: "That is not done at this address."}
    told = ApiError(error.status_code, sentence.get(error.status_code, error.detail))
    told.headers.update(error.headers or {})
    return told.response()


async def _refuse(request: Request, error: Exception) -> Response:
    assert isinstance(error, ApiError)
    return error.response()
