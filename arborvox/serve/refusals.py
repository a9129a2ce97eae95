"""What a request is told when it is refused, in the shape that OpenAI's clients read."""

from collections.abc import Mapping
from typing import Any

from starlette.responses import JSONResponse

from arborvox.errors import one_line

_TYPES = {
    401: "authentication_error",
    403: "permission_error",
    429: "rate_limit_error",
    500: "server_error",
    503: "server_error",
    507: "server_error",
}


class ApiError(Exception):
    """An answer that is no result: a status and one sentence."""

    def __init__(
        self,
        status: int,
        sentence: str,
        *,
        param: str | None = None,
        code: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        """Keep what the answer is made of."""
        super().__init__(sentence)
        self.status, self.param, self.code = status, param, code
        self.sentence = one_line(sentence, most=1000)
        self.headers = dict(headers or {})

    def body(self) -> dict[str, Any]:
        """Return it as OpenAI writes it."""
        kind = _TYPES.get(self.status, "invalid_request_error")
        error = {
            "message": self.sentence,
            "type": kind,
            "param": self.param,
            "code": self.code,
        }
        return {"error": error}

    def response(self) -> JSONResponse:
        """Return the answer."""
        return JSONResponse(self.body(), self.status, self.headers)


def wrong(param: str, sentence: str, *, status: int = 400, code: str | None = None) -> ApiError:
    """Refuse a field of a request."""
    return ApiError(status, sentence, param=param, code=code)
