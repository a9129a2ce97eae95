"""POST /v1/documents/{format}: a transcript that the page holds, as a file for other programs."""

import asyncio
from collections.abc import Iterable
from itertools import pairwise
from math import isfinite
from typing import cast

from pydantic import TypeAdapter
from starlette.requests import Request
from starlette.responses import Response

from arborvox.config.choices import ResponseFormat, values_of
from arborvox.decode.transcript import Transcript
from arborvox.errors import ArborvoxError, one_line
from arborvox.serve.answers import ANSWERS, Result
from arborvox.serve.bodies import check_json
from arborvox.serve.messages import Heard
from arborvox.serve.refusals import ApiError
from arborvox.serve.settings import Limits
from arborvox.serve.uploads import receive_body

MOST_BYTES = 32 << 20
LATEST_S = 1e7
_FORM = TypeAdapter(Transcript)


async def write_document(request: Request) -> Response:
    """Turn a transcript, as `arborvox transcribe --format json` writes it, into another format."""
    kind = request.path_params["format"]
    if kind not in values_of(ResponseFormat):
        raise ApiError(404, f"There is no format {one_line(kind, 40)!r}.")
    limits: Limits = request.app.state.service.limits
    data = await receive_body(request.headers, request.receive, limits, MOST_BYTES)
    media_type, text = await asyncio.to_thread(_write, data, cast("ResponseFormat", kind))
    return Response(text, media_type=media_type)


def _write(data: bytes, kind: ResponseFormat) -> tuple[str, str]:
    transcript = check_json(data, _FORM)
    if not _is_in_order(transcript):
        raise ApiError(400, "The times of a transcript must be finite and rise.")
    media_type, write = ANSWERS[kind]
    heard = tuple(Heard(segment, (), 0.0) for segment in transcript.segments)
    try:
        return media_type, write(Result(transcript.duration_s, heard))
    except ArborvoxError as error:
        raise ApiError(400, str(error)) from None


def _is_in_order(transcript: Transcript) -> bool:
    """Whether segments follow each other, and the words of each lie in the same time."""
    spans = [(each.start_s, each.end_s) for each in transcript.segments]
    if not (isfinite(transcript.duration_s) and _follow(spans)):
        return False
    return all(
        _follow(
            (word.start_s, word.end_s)
            for word in segment.words
            if word.start_s is not None and word.end_s is not None
        )
        for segment in transcript.segments
    )


def _follow(spans: Iterable[tuple[float, float]]) -> bool:
    whole = list(spans)
    return all(0 <= begin <= end <= LATEST_S for begin, end in whole) and all(
        before[0] <= after[0] for before, after in pairwise(whole)
    )
