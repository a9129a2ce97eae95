"""XML of strangers, as it streams by: no document types, no entities, nothing fetched."""

import io
import re
from pathlib import Path
from typing import BinaryIO, Protocol
from xml.parsers import expat

from arborvox.errors import ArborvoxError

# A day's annotations of every phone have 50 MB.
MOST_MIB = 256
DEEPEST = 100
_BLOCK_BYTES = 1 << 18
_FORBIDDEN = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


class Handler(Protocol):
    """Whoever is told what comes; `at` is the place in the file, in bytes."""

    def start(self, tag: str, attributes: dict[str, str], at: int) -> None:
        """An element begins at a byte."""

    def end(self, tag: str, at: int) -> None:
        """It ends: at its end tag, or behind it if it was empty and had none."""

    def text(self, data: str) -> None:
        """Some of the text in it."""

    def encoding(self, name: str) -> None:
        """What the file says it is encoded in."""


def read_xml(path: Path) -> bytes:
    """Read an XML file whole, to edit it."""
    if path.stat().st_size > MOST_MIB << 20:  # before it is in memory
        raise _too_large(str(path))
    with path.open("rb") as file:
        data = file.read((MOST_MIB << 20) + 1)
    if len(data) > MOST_MIB << 20:
        raise _too_large(str(path))
    return data


def walk_file(path: Path, handler: Handler) -> None:
    """Tell a handler what is in a file; one that is no XML, or no harmless one, is refused."""
    with path.open("rb") as file:
        _walk(file, str(path), handler)


def walk_bytes(data: bytes, name: str, handler: Handler) -> None:
    """Tell a handler what is in the bytes of a file."""
    _walk(io.BytesIO(data), name, handler)


def _walk(file: BinaryIO, name: str, handler: Handler) -> None:
    parser = expat.ParserCreate()
    parser.buffer_text = True
    depth = 0

    def start(tag: str, attributes: dict[str, str]) -> None:
        nonlocal depth
        depth += 1
        if depth > DEEPEST:
            raise ArborvoxError(f"{name}, line {parser.CurrentLineNumber}: nested too deeply.")
        handler.start(tag, attributes, parser.CurrentByteIndex)

    def end(tag: str) -> None:
        nonlocal depth
        depth -= 1
        handler.end(tag, parser.CurrentByteIndex)

    def refuse(*_: object) -> int:
        raise ArborvoxError(
            f"{name}, line {parser.CurrentLineNumber}: a document type or an entity is declared, "
            "which no program needs for this format and which is not read; delete the line."
        )

    parser.StartElementHandler, parser.EndElementHandler = start, end
    parser.CharacterDataHandler = handler.text
    parser.XmlDeclHandler = lambda _, encoding, __: handler.encoding(encoding or "")
    parser.StartDoctypeDeclHandler = parser.EntityDeclHandler = refuse
    parser.ExternalEntityRefHandler = refuse
    num_bytes = 0
    try:
        while block := file.read(_BLOCK_BYTES):
            num_bytes += len(block)
            if num_bytes > MOST_MIB << 20:
                raise _too_large(name)
            parser.Parse(block, False)
        parser.Parse(b"", True)
    except expat.ExpatError as error:
        told = expat.ErrorString(error.code)
        raise ArborvoxError(f"{name}, line {error.lineno}: not valid XML ({told}).") from None
    except (LookupError, ValueError) as error:  # of an encoding that is none
        raise ArborvoxError(f"{name}: its encoding cannot be read ({error}).") from None


def _too_large(name: str) -> ArborvoxError:
    return ArborvoxError(f"{name} is larger than {MOST_MIB} MiB; split it in the program it is of.")


def escaped(text: str) -> str:
    """Return a text for XML; characters that it cannot have become U+FFFD."""
    clean = _FORBIDDEN.sub("\ufffd", text)
    for character, name in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"), ("\r", "&#13;")):
        clean = clean.replace(character, name)
    return clean


def quoted(text: str) -> str:
    """Return the value of an attribute, with its quotes."""
    clean = escaped(text).replace('"', "&quot;")
    return '"' + clean.replace("\n", "&#10;").replace("\t", "&#9;") + '"'
