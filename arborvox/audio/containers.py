"""Formats of audio files told by their first bytes, because names lie."""

import codecs
import enum
import string
import struct
from pathlib import Path

from arborvox.audio.mp3 import ID3_MAGIC, is_frame

_TEXT_BYTES = frozenset(string.printable.encode())
_UNKNOWN_CHUNK_SIZES = (0, 0xFFFFFFFF)  # what a program leaves that could not go back to the header
# Integer, float, A-law, mu-law and extensible: formats in which a block is one frame.
_PLAIN_WAV_TAGS = (1, 3, 6, 7, 0xFFFE)


class Container(enum.Enum):
    """How the samples are wrapped, in the words of a message."""

    WAV = "WAV"
    FLAC = "FLAC"
    OGG = "Ogg"
    MP3 = "MP3"
    AIFF = "AIFF"
    MP4 = "MP4/M4A"
    MATROSKA = "WebM/Matroska"
    ASF = "WMA"
    AMR = "AMR"
    TEXT = "text"
    UNKNOWN = "unknown format"

    @property
    def is_read_by_soundfile(self) -> bool:
        """Whether a file that soundfile refuses is damaged, not merely of another format."""
        return self in _READ_BY_SOUNDFILE


_READ_BY_SOUNDFILE = (Container.FLAC, Container.OGG, Container.MP3)
_MAGIC = (
    (0, b"RIFF", Container.WAV),
    (0, b"RF64", Container.WAV),
    (0, b"fLaC", Container.FLAC),
    (0, b"OggS", Container.OGG),
    (0, b"FORM", Container.AIFF),
    (4, b"ftyp", Container.MP4),
    (0, b"\x1aE\xdf\xa3", Container.MATROSKA),
    (0, b"0&\xb2u", Container.ASF),
    (0, b"#!AMR", Container.AMR),
)


def recognize(head: bytes) -> Container:
    """Tell a format by the first bytes of a file (4,096 or all of them)."""
    for offset, magic, container in _MAGIC:
        if head.startswith(magic, offset):
            return container
    if head.startswith(ID3_MAGIC) or is_frame(head):
        return Container.MP3
    return Container.TEXT if _is_text(head) else Container.UNKNOWN


def stated_wav_frames(path: Path) -> int | None:
    """The number of frames that the header of a RIFF file promises, if it promises any.

    RIFF <size> WAVE, then chunks of a 4-byte name, a 4-byte size and content padded to even length:
    fmt  <16> <tag:2> <channels:2> <rate:4> <bytes/s:4> <frame bytes:2> <bits:2>
    data <size> <samples>
    """
    frame_size = 0
    with path.open("rb") as file:
        if file.read(4) != b"RIFF":
            return None
        file.seek(12)
        while len(header := file.read(8)) == 8:
            name, size = struct.unpack("<4sI", header)
            if name == b"data":
                known = frame_size > 0 and size not in _UNKNOWN_CHUNK_SIZES
                return size // frame_size if known else None
            content_start = file.tell()
            if name == b"fmt ":
                tag, _, _, _, block, _ = struct.unpack("<HHIIHH", file.read(16).ljust(16, b"\0"))
                frame_size = block if tag in _PLAIN_WAV_TAGS else 0
            file.seek(content_start + size + size % 2)
    return None


def stated_aiff_frames(path: Path) -> int | None:
    """The number of frames that the header of an AIFF file promises, if it has one.

    FORM <size> AIFF, then chunks as in RIFF but in the other byte order:
    COMM <18> <channels:2> <frames:4> <bits:2> <rate:10>
    """
    with path.open("rb") as file:
        file.seek(12)
        while len(header := file.read(8)) == 8:
            name, size = struct.unpack(">4sI", header)
            if name == b"COMM":
                _, frames = struct.unpack(">HI", file.read(6).ljust(6, b"\0"))
                return int(frames)
            file.seek(size + size % 2, 1)
    return None


def _is_text(head: bytes) -> bool:
    try:
        # The incremental decoder forgives a last character that the end of the head cuts in two.
        codecs.getincrementaldecoder("utf-8")().decode(head)
    except UnicodeDecodeError:
        return False
    return all(byte >= 0x20 or byte in _TEXT_BYTES for byte in head)
