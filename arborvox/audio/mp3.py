"""Whether the frames of an MP3 file follow each other without gaps: decoders skip over damage."""

import functools
import mmap
from dataclasses import dataclass
from pathlib import Path

ID3_MAGIC = b"ID3"
# What taggers put behind the last frame; padding of zeros is allowed before it.
_TAGS_BEHIND = (b"TAG", b"APETAGEX", b"LYRICSBEGIN")
_KBITS = {
    1: (0, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320),
    2: (0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160),
}
_RATES = (44100, 48000, 32000)
_MONO = 3
# Half a granule, the most that pairs of Huffman-coded values can fill.
_MOST_BIG_VALUES = 288


@dataclass(frozen=True)
class FrameWalk:
    """What the headers of an MP3 tell: how much there is, and where it is damaged."""

    num_samples: int
    problem: str = ""


@dataclass(frozen=True, slots=True)
class _Header:
    """The four bytes before each frame: 11 set bits, version, layer, CRC or none, rates, mode."""

    version: int  # 1; 2 stands for 2.5 too
    rate: int
    size: int
    side_start: int
    side_size: int
    num_channels: int

    @property
    def num_granules(self) -> int:
        """Halves of a frame, each coded on its own; the later versions have one."""
        return 2 if self.version == 1 else 1

    @property
    def num_samples(self) -> int:
        """Samples of each channel."""
        return 576 * self.num_granules


def id3_size(head: bytes) -> int:
    """The length of an ID3 tag (title, cover picture) that stands before frames, or 0.

    ID3 <version:2> <flags:1> <size:4>, seven bits of the size in each byte
    """
    if not head.startswith(ID3_MAGIC) or len(head) < 10:
        return 0
    size = 0
    for byte in head[6:10]:
        size = size << 7 | byte & 0x7F
    return 10 + size + (10 if head[5] & 0x10 else 0)  # a flag says that a footer follows


def states_length(head: bytes) -> bool:
    """Whether the first frame of an MP3 holds a table with its length; else it is estimated."""
    return any(tag in head for tag in (b"Xing", b"Info", b"VBRI"))


def is_frame(head: bytes) -> bool:
    """Whether bytes begin as a frame of layer III does."""
    # Eleven set bits, then version, layer III, and a rate that is not the reserved one.
    return (
        len(head) >= 4
        and head[0] == 0xFF
        and head[1] & 0xE6 == 0xE2
        and head[2] & 0xF0 != 0xF0
        and head[2] & 0x0C != 0x0C
    )


def walk_mp3(path: Path, *, deep: bool = True) -> FrameWalk | None:
    """Walk from frame to frame; None where lengths are not stated (free format, other layers).

    `deep` looks into the frames, too: at their side information.
    """
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        at = _skip_zeros(data, _skip_tags(data, 0))
        first = _read_header(data[at : at + 4])
        if first is None:
            return None
        reservoir = _Reservoir()
        num_samples, number = 0, 0
        while at < len(data):
            header = _read_header(data[at : at + 4])
            if header is None:
                after = _skip_tags(data, at)
                if after == at and data[at] == 0xFF and len(data) - at < 4:
                    return FrameWalk(num_samples, "truncated: the last MP3 frame has no header")
                if after == at and not _is_tail(data, at):
                    problem = f"damaged: no MP3 frame at byte {at:,}, after frame {number:,}"
                    return FrameWalk(num_samples, problem)
                if after == at:
                    break
                at = after
                continue
            number += 1
            if (header.version, header.rate) != (first.version, first.rate):
                problem = f"damaged: MP3 frame {number:,} is of another kind"
                return FrameWalk(num_samples, problem)
            if at + header.size > len(data):
                missing = at + header.size - len(data)
                problem = f"truncated: the last MP3 frame lacks {missing:,} bytes"
                return FrameWalk(num_samples, problem)
            side_end = header.side_start + header.side_size
            if deep and not reservoir.takes(data[at : at + side_end], header):
                return FrameWalk(num_samples, f"damaged: side information of MP3 frame {number:,}")
            num_samples += header.num_samples
            at += header.size
    return FrameWalk(num_samples)


class _Reservoir:
    """The coded samples of all frames in one row: a frame's may begin in frames before it."""

    def __init__(self) -> None:
        self._held = 0  # bytes of coded samples up to this frame
        self._used = 0  # where those of the last frame ended

    def takes(self, head: bytes, header: _Header) -> bool:
        """Whether a frame's side information is possible here; its room is then added."""
        bits = _Bits(head[header.side_start :])
        channels = header.num_channels
        # <back> <private, shared scale factors>, then of each granule and channel
        # <length:12> <big values:9> <gain, scale factors> <switched:1> <block:2> <tables, flags>
        back_bits, factor_bits, last_bits = (9, 12, 23) if header.version == 1 else (8, 17, 22)
        private_bits = {(1, 1): 9, (1, 2): 11, (2, 1): 1, (2, 2): 2}[header.version, channels]
        back = bits.take(back_bits)
        bits.take(private_bits)
        num_bits = 0
        for _ in range(header.num_granules * channels):
            num_bits += bits.take(12)
            big_values = bits.take(9)
            bits.take(factor_bits)
            is_switched, block = bits.take(1), bits.take(2)
            bits.take(last_bits)
            if big_values > _MOST_BIG_VALUES or (is_switched and block == 0):
                return False
        room = header.size - header.side_start - header.side_size
        start = self._held - back
        end = start + -(-num_bits // 8)
        # The first frames of a stretch cut out of a longer stream point before its start.
        fits = (start < 0 or start >= self._used) and end <= self._held + room
        self._held += room
        self._used = max(end, 0)
        return fits


class _Bits:
    """Reads numbers off a bit string, from the left."""

    def __init__(self, content: bytes) -> None:
        self._value, self._left = int.from_bytes(content), 8 * len(content)

    def take(self, count: int) -> int:
        """Return the number in so many bits."""
        self._left -= count
        return self._value >> self._left & ((1 << count) - 1)


@functools.lru_cache(maxsize=1024)  # a file has a handful of them
def _read_header(head: bytes) -> _Header | None:
    if not is_frame(head) or head[1] >> 3 & 3 == 1:  # 1: a version that does not exist
        return None
    version_bits = head[1] >> 3 & 3
    version = 1 if version_bits == 3 else 2
    kbits = _KBITS[version][head[2] >> 4]
    if kbits == 0:
        return None
    rate = _RATES[head[2] >> 2 & 3] >> {3: 0, 2: 1, 0: 2}[version_bits]
    size = (144_000 if version == 1 else 72_000) * kbits // rate + (head[2] >> 1 & 1)
    channels = 1 if head[3] >> 6 == _MONO else 2
    side_size = {(1, 1): 17, (1, 2): 32, (2, 1): 9, (2, 2): 17}[version, channels]
    return _Header(version, rate, size, 4 if head[1] & 1 else 6, side_size, channels)


def _skip_tags(data: mmap.mmap, at: int) -> int:
    while size := id3_size(data[at : at + 10]):
        at += size
    return at


def _skip_zeros(data: mmap.mmap, at: int) -> int:
    while at < len(data) and data[at] == 0:
        at += 1
    return at


def _is_tail(data: mmap.mmap, at: int) -> bool:
    """Whether nothing but padding and tags is left."""
    at = _skip_zeros(data, at)
    return at == len(data) or data[at : at + 11].startswith(_TAGS_BEHIND)
