"""Whether the pages of an Ogg file are whole: decoders leave gaps out without a word."""

import mmap
import struct
import zlib
from pathlib import Path

_MAGIC = b"OggS"
_HEADER = struct.Struct("<4sBBqIIIB")  # OggS, version, flags, position, stream, page, CRC, segments
_CRC_AT = 22
_FIRST, _LAST = 0x02, 0x04  # flags of a stream's first and last page
_REVERSED = bytes(int(f"{byte:08b}"[::-1], 2) for byte in range(256))


def ogg_problem(path: Path) -> str:
    """Walk over all pages and say what is missing or damaged, or nothing."""
    pages: dict[int, int] = {}  # the last page's number of each stream that is not at its end
    num_ended = 0
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        at = 0
        while data[at : at + 4] == _MAGIC:
            start, at = at, _page_end(data, at)
            if at > len(data):
                return f"truncated: the last Ogg page lacks {at - len(data):,} bytes"
            _, _, flags, _, stream, page, crc, _ = _HEADER.unpack_from(data, start)
            if crc != _checksum(data[start:at]):
                return f"damaged: checksum of the Ogg page at byte {start:,}"
            is_next = stream in pages and page == (pages[stream] + 1) & 0xFFFFFFFF
            if not (is_next or flags & _FIRST):
                return f"damaged: Ogg pages are missing before byte {start:,}"
            pages[stream] = page
            if flags & _LAST:
                del pages[stream]
                num_ended += 1
        if at < len(data) and data.find(_MAGIC, at) >= 0:
            return f"damaged: no Ogg page at byte {at:,}"
    if pages or not num_ended:
        return "truncated: no end page (Ogg)"
    return ""


def _page_end(data: mmap.mmap, start: int) -> int:
    """Return where a page ends; beyond the file's end where it is cut.

    The header is followed by a byte for each segment, its length.
    """
    table = start + _HEADER.size
    if table > len(data):
        return table
    num_segments = data[table - 1]
    return table + num_segments + sum(data[table : table + num_segments])


def _checksum(page: bytes) -> int:
    """Return an Ogg page's CRC, which is taken with its own four bytes as zeros.

    It is zlib's with the bits of every byte in the other order, and without the two inversions.
    """
    blank = page[:_CRC_AT] + bytes(4) + page[_CRC_AT + 4 :]
    mirrored = zlib.crc32(blank.translate(_REVERSED), 0xFFFFFFFF) ^ 0xFFFFFFFF
    return int(f"{mirrored:032b}"[::-1], 2)
