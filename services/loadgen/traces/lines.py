"""Lines of a file, plain or gzip, and what is wrong with one: an error that names file, line and field."""

from __future__ import annotations

import gzip
import io
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, TypeVar

import msgspec

from baton.services.loadgen.load_errors import BadTrace

T = TypeVar("T")

Count = Annotated[int, msgspec.Meta(ge=0, le=1 << 40)]
Seconds = Annotated[float, msgspec.Meta(ge=0, le=1e12)]

_GZIP_MAGIC = b"\x1f\x8b"
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


def numbered_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """Those with something on them, with their numbers from 1; one is in memory at a time."""
    number = 0
    try:
        with _opened(path) as stream:
            for number, line in enumerate(stream, 1):
                if number == 1:
                    line = line.removeprefix(_BYTE_ORDER_MARK)
                if line := line.strip():
                    yield number, line
    except (OSError, EOFError, zlib.error) as error:
        where = f"{path}:{number + 1}" if number else f"{path}"
        raise BadTrace(f"{where}: {getattr(error, 'strerror', None) or error}") from None


def _opened(path: Path) -> gzip.GzipFile | io.BufferedReader:
    with path.open("rb") as stream:
        is_gzip = stream.read(len(_GZIP_MAGIC)) == _GZIP_MAGIC
    return gzip.open(path, "rb") if is_gzip else path.open("rb")


def broken(path: Path, number: int, what: str) -> BadTrace:
    return BadTrace(f"{path}:{number}: {what}")


def decode_line(decoder: msgspec.json.Decoder[T], path: Path, number: int, line: bytes | msgspec.Raw) -> T:
    """Raises BadTrace."""
    try:
        return decoder.decode(line)
    except msgspec.ValidationError as error:
        raise broken(path, number, str(error)) from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise broken(path, number, f"this is not one JSON object: {error}") from None
