"""Uploads: streamed to a file of our own name, bounded, and gone when the request is over."""

import asyncio
import contextlib
import errno
import os
import shutil
import tempfile
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from dataclasses import dataclass, field
from email.message import Message as HeaderParser
from pathlib import Path
from typing import BinaryIO

from python_multipart import MultipartParser
from python_multipart.exceptions import MultipartParseError
from starlette.datastructures import Headers
from starlette.types import Receive

from arborvox.errors import one_line
from arborvox.processes import is_deserted, process_mark
from arborvox.serve.refusals import ApiError, wrong
from arborvox.serve.settings import Limits

FILE_FIELD = "file"
MOST_FIELDS = 64
MOST_FIELD_BYTES = 1 << 16
WRITTEN_AT_ONCE = 1 << 20
SCRATCH = "arborvox-serve-"


@contextlib.contextmanager
def scratch_folder() -> Iterator[Path]:
    """Yield a folder for uploads that nobody else can read; sweep those of killed servers."""
    for left in Path(tempfile.gettempdir()).glob(f"{SCRATCH}*"):
        if is_deserted(left.name) and left.is_dir() and not left.is_symlink():
            shutil.rmtree(left, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix=f"{SCRATCH}{process_mark()}-") as name:
        yield Path(name)


@dataclass
class Form:
    """A multipart request: its fields, and where its file lies."""

    fields: dict[str, list[str]] = field(default_factory=dict)
    file: Path | None = None
    num_bytes: int = 0

    def one(self, name: str) -> str | None:
        """Return a field's value, None if it is not there."""
        values = self.fields.get(name, [])
        if len(values) > 1:
            raise wrong(name, f"{name} stands there {len(values)} times.")
        return values[0] if values else None


async def body_chunks(
    headers: Headers, receive: Receive, limits: Limits
) -> AsyncGenerator[bytes, None]:
    """Yield a request's body, no more than is allowed and no slower than is allowed."""
    most = limits.upload_mb << 20
    too_large = ApiError(413, f"The request is larger than {limits.upload_mb} MiB.")
    if headers.get("content-encoding", "identity").lower() != "identity":
        raise ApiError(415, "Compressed requests are not taken; send the recording as it is.")
    stated = headers.get("content-length", "0")
    if stated.isdecimal() and int(stated[:18]) > most:
        raise too_large
    num_bytes = 0
    while True:
        try:
            async with asyncio.timeout(limits.idle_s):
                message = await receive()
        except TimeoutError:
            raise ApiError(
                408, f"Nothing came for {limits.idle_s:g} s.", headers={"Connection": "close"}
            ) from None
        if message["type"] == "http.disconnect":
            raise ConnectionAbortedError
        chunk: bytes = message.get("body", b"")
        num_bytes += len(chunk)
        if num_bytes > most:
            raise too_large
        if chunk:
            yield chunk
        if not message.get("more_body", False):
            return


async def receive_body(
    headers: Headers, receive: Receive, limits: Limits, most_bytes: int
) -> bytes:
    """Return a request's body, which is small enough to be kept in memory."""
    data = bytearray()
    async with contextlib.aclosing(body_chunks(headers, receive, limits)) as chunks:
        async for chunk in chunks:
            data += chunk
            if len(data) > most_bytes:
                raise ApiError(413, f"This takes no more than {most_bytes >> 10} KiB.")
    return bytes(data)


@contextlib.asynccontextmanager
async def receive_form(
    headers: Headers, receive: Receive, folder: Path, limits: Limits
) -> AsyncIterator[Form]:
    """Read a multipart request; its file is there as long as the block lasts."""
    parser = HeaderParser()
    parser["content-type"] = headers.get("content-type", "")
    boundary = parser.get_param("boundary")
    if parser.get_content_type() != "multipart/form-data" or not isinstance(boundary, str):
        raise ApiError(415, "The request must be multipart/form-data, with the recording as file.")
    handle, name = tempfile.mkstemp(dir=folder, prefix="upload-")
    path = Path(name)
    try:
        with os.fdopen(handle, "wb") as target:
            reader = _FormReader(boundary, target)
            async with contextlib.aclosing(body_chunks(headers, receive, limits)) as chunks:
                async for chunk in chunks:
                    reader.read(chunk)
                    if len(reader.pending) >= WRITTEN_AT_ONCE:
                        await asyncio.to_thread(reader.write_pending)
            form = reader.finish()
            await asyncio.to_thread(reader.write_pending)
        if reader.has_file:
            form.file = path
        yield form
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise ApiError(507, "There is no room for the upload.") from None
        raise
    finally:
        path.unlink(missing_ok=True)


class _FormReader:
    """Takes a body in pieces; what belongs to the file waits to be written."""

    def __init__(self, boundary: str, target: BinaryIO) -> None:
        self.pending = bytearray()
        self.has_file = False
        self._target = target
        self._form = Form()
        self._header_name = b""
        self._header_value = b""
        self._disposition = b""
        self._name: str | None = None
        self._is_file = self._is_complete = False
        self._value = bytearray()
        self._num_parts = 0
        callbacks = {
            "on_part_begin": self._begin_part,
            "on_header_field": self._add_header_name,
            "on_header_value": self._add_header_value,
            "on_header_end": self._end_header,
            "on_headers_finished": self._end_headers,
            "on_part_data": self._add_data,
            "on_part_end": self._end_part,
            "on_end": self._end,
        }
        try:
            self._parser = MultipartParser(boundary.encode("latin-1", "replace"), callbacks)  # type: ignore[arg-type]
        except (MultipartParseError, ValueError):
            raise ApiError(400, "The boundary of the multipart request cannot be used.") from None

    def read(self, chunk: bytes) -> None:
        """Take the next piece."""
        try:
            self._parser.write(chunk)
        except MultipartParseError:
            raise ApiError(400, "The multipart request is damaged.") from None

    def finish(self) -> Form:
        """Return the form, if it was whole."""
        if not self._is_complete:
            raise ApiError(400, "The multipart request breaks off.")
        return self._form

    def write_pending(self) -> None:
        """Write what waits to the file."""
        self._target.write(self.pending)
        self._form.num_bytes += len(self.pending)
        self.pending.clear()

    def _begin_part(self) -> None:
        self._num_parts += 1
        if self._num_parts > MOST_FIELDS:
            raise ApiError(400, f"The request has more than {MOST_FIELDS} fields.")
        self._disposition, self._name, self._value = b"", None, bytearray()
        self._header_name = self._header_value = b""

    def _add_header_name(self, data: bytes, start: int, end: int) -> None:
        self._header_name += data[start:end]

    def _add_header_value(self, data: bytes, start: int, end: int) -> None:
        self._header_value += data[start:end]

    def _end_header(self) -> None:
        if self._header_name.lower() == b"content-disposition":
            self._disposition = self._header_value
        self._header_name = self._header_value = b""

    def _end_headers(self) -> None:
        # Content-Disposition: form-data; name="file"; filename="x.wav"
        parser = HeaderParser()
        parser["content-disposition"] = " ".join(self._disposition.decode("latin-1").split())
        name = parser.get_param("name", header="content-disposition")
        if not isinstance(name, str) or not name:
            raise ApiError(400, "A field of the request has no name.")
        self._name = name
        self._is_file = name == FILE_FIELD
        if self._is_file:
            if self.has_file:
                raise wrong(FILE_FIELD, "One recording a request.")
            self.has_file = True

    def _add_data(self, data: bytes, start: int, end: int) -> None:
        if self._is_file:
            self.pending += data[start:end]
            return
        self._value += data[start:end]
        if len(self._value) > MOST_FIELD_BYTES:
            raise ApiError(400, f"The field {one_line(str(self._name), 40)} is too long.")

    def _end_part(self) -> None:
        if self._is_file or self._name is None:
            return
        text = self._value.decode("utf-8", "replace")
        self._form.fields.setdefault(self._name, []).append(text)

    def _end(self) -> None:
        self._is_complete = True
