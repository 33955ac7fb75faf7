"""The unpacked size of data in Zstandard format (RFC 8878), read from its headers.
The data are a sequence of *frames*, each with a header that may declare its unpacked
size, and *blocks* of packed bytes. A decoder would unpack any amount; the sizes tell
beforehand how much memory that takes.
"""

import struct
from typing import NamedTuple

_CHECKSUM_BYTES = 4  # the length of a frame's checksum, if it has one

# The first bytes of a frame with data, as a little-endian number; and those of a
# skippable frame, whose last 4 bits may be anything.
_FRAME_MAGIC = 0xFD2FB528
_SKIPPABLE_MAGIC = 0x184D2A50

# The content size is stored in a field whose length a flag tells: 1, 2 or 3 for these
# formats of `struct`. For the flag 0 the field has one byte or is missing.
_SIZE_FORMATS = {1: "<H", 2: "<I", 3: "<Q"}

# The type of a block that repeats one byte; the reserved type, which nobody may use.
_REPEATED_BYTE = 1
_RESERVED = 3


class _FrameHeader(NamedTuple):
    """The header of a Zstandard frame (RFC 8878, section 3.1.1.1).

    Attributes
    ----------
    size : int
        How many bytes the header has.
    content_size : int or None
        How many bytes the frame says it unpacks to; None if it does not say.
    has_checksum : bool
        Whether a checksum of 4 bytes follows the frame's blocks.
    """

    size: int
    content_size: int | None
    has_checksum: bool


def zstd_content_size(packed: bytes) -> int | None:
    """Return how many bytes a chunk in Zstandard format unpacks to.

    A chunk is a sequence of frames, each of which declares its own size. The result is
    the sum of these sizes.

    Parameters
    ----------
    packed : bytes
        The packed bytes.

    Returns
    -------
    int or None
        None if a frame does not declare its size, or if the bytes are not frames.
    """
    total = 0
    position = 0
    try:
        while position < len(packed):
            (magic,) = struct.unpack_from("<I", packed, position)
            if magic & ~0xF == _SKIPPABLE_MAGIC:
                (skipped_bytes,) = struct.unpack_from("<I", packed, position + 4)
                position += 8 + skipped_bytes
                continue
            if magic != _FRAME_MAGIC:
                return None

            header = _parse_frame_header(packed, position)
            if header.content_size is None:
                return None
            total += header.content_size
            position = _end_of_frame(packed, position, header)
    except (struct.error, IndexError):  # The chunk ends inside of a frame.
        return None
    return total if position == len(packed) else None


def _parse_frame_header(packed: bytes, start: int) -> _FrameHeader:
    """Parse the header of the Zstandard frame that begins at `start`.

    Its fields are the magic number (4 bytes), a descriptor (1 byte), the window's size
    (1 byte, but none in a frame of a single segment), the id of a dictionary (0 to 4
    bytes), and the content size (0 to 8 bytes).

    Parameters
    ----------
    packed : bytes
        The packed chunk.
    start : int
        The position in `packed` at which the frame begins.

    Returns
    -------
    _FrameHeader
        The length of the header, the declared size and whether there is a checksum.
    """
    # The bits of the descriptor: 7 and 6 for the length of the content size, 5 for a
    # single segment, 2 for a checksum, 1 and 0 for the length of the dictionary's id.
    descriptor = packed[start + 4]
    size_flag = descriptor >> 6
    is_single_segment = bool(descriptor & 0x20)
    has_checksum = bool(descriptor & 0x04)
    window_bytes = 0 if is_single_segment else 1
    dictionary_bytes = (0, 1, 2, 4)[descriptor & 0x03]
    bytes_before_size = 5 + window_bytes + dictionary_bytes

    if size_flag == 0 and not is_single_segment:
        return _FrameHeader(bytes_before_size, None, has_checksum)

    size_format = _SIZE_FORMATS.get(size_flag, "<B")
    size_bytes = struct.calcsize(size_format)
    position = start + bytes_before_size
    content_size = int(struct.unpack_from(size_format, packed, position)[0])
    if size_bytes == 2:
        content_size += 256  # RFC 8878: a size of 2 bytes counts from 256.
    return _FrameHeader(bytes_before_size + size_bytes, content_size, has_checksum)


def _end_of_frame(packed: bytes, start: int, header: _FrameHeader) -> int:
    """Return the position after the Zstandard frame that begins at `start`.

    Each block begins with 3 bytes (RFC 8878, section 3.1.1.2): one bit for the last
    block, two bits for its type, and its size. An invalid block raises `IndexError`.

    Parameters
    ----------
    packed : bytes
        The packed chunk.
    start : int
        The position in `packed` at which the frame begins.
    header : _FrameHeader
        The parsed header of the frame.

    Returns
    -------
    int
        The position, which may be beyond the end of `packed`.
    """
    position = start + header.size
    is_last_block = False
    while not is_last_block:
        if position + 3 > len(packed):
            raise IndexError("the chunk ends inside of a frame")
        block_header = int.from_bytes(packed[position : position + 3], "little")
        is_last_block = bool(block_header & 1)
        block_type = (block_header >> 1) & 3
        block_size = block_header >> 3
        if block_type == _RESERVED:
            raise IndexError("no block has the reserved type")
        # A repeated byte is stored once, and the size says how often it is repeated.
        stored_bytes = 1 if block_type == _REPEATED_BYTE else block_size
        position += 3 + stored_bytes
    if header.has_checksum:
        position += _CHECKSUM_BYTES
    return position
