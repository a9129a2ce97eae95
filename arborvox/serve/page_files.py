"""The page's files, read once; nothing else on the disk can be asked for."""

import json
from importlib import resources
from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response

from arborvox.errors import ArborvoxError
from arborvox.files import read_json
from arborvox.serve.refusals import ApiError

WORDS = "words.json"
_KINDS = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".json": "application/json",
    ".svg": "image/svg+xml",
}


class PageFiles:
    """The page, in the language of its words."""

    def __init__(self, words: Path | None) -> None:
        """Read it all; words of another language take the place of the English ones."""
        folder = resources.files("arborvox.serve") / "page"
        self._files = {
            entry.name: entry.read_bytes() for entry in folder.iterdir() if entry.is_file()
        }
        if words is not None:
            self._files[WORDS] = _translated(words, self._files[WORDS])

    async def index(self, request: Request) -> Response:
        """Answer /."""
        return self._whole_page("index.html", request)

    async def project(self, request: Request) -> Response:
        """Answer /project."""
        return self._whole_page("project.html", request)

    def _whole_page(self, name: str, request: Request) -> Response:
        response = self._answer(name)
        # The host was compared with those that are allowed; it can hold nothing else.
        host = request.headers["host"]
        response.headers["Content-Security-Policy"] = (
            "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
            f"media-src 'self' blob:; connect-src 'self' ws://{host} wss://{host}; "
            "worker-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
        )
        return response

    async def file(self, request: Request) -> Response:
        """Answer /page/{name}."""
        return self._answer(request.path_params["name"])

    async def icon(self, request: Request) -> Response:
        """Answer what browsers ask for unasked."""
        return self._answer("icon.svg")

    def _answer(self, name: str) -> Response:
        if name not in self._files:
            raise ApiError(404, "The page has no such file.")
        kind = _KINDS[Path(name).suffix]
        return Response(self._files[name], media_type=kind, headers={"Cache-Control": "no-cache"})


def _translated(path: Path, english: bytes) -> bytes:
    """Check a translation: it may lack words, but has none that the page does not know."""
    known, given = json.loads(english), read_json(path, most_mib=1)
    if not isinstance(given, dict) or not all(isinstance(text, str) for text in given.values()):
        raise ArborvoxError(f"{path} must be a JSON object of texts, as the page's {WORDS} is.")
    for key in given:
        if key not in known:
            raise ArborvoxError(f"{path}: the page has no word {key!r}.")
    return json.dumps({**known, **given}, ensure_ascii=False).encode()
