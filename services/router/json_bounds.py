"""How much one JSON text of a client may be made of. Its decoder lets no other thread run before it is through, so a
text of millions of values would hold up every stream, wherever it is decoded."""

from __future__ import annotations

import re
from collections.abc import Iterator

MAX_NODES = 1 << 16  #: objects, lists and members of objects: the decoder makes about six in a microsecond
MAX_VALUES = 1 << 18  #: and anything else, such as token ids: about 25
MAX_DIGITS = 1000  #: of one number: reading it takes a time that grows with their square
QUOTE = ord('"')
#: within a string; so short that other threads have their turns between two, however long the string is
STRING_PIECE = re.compile(rb'(?:[^"\\]{1,64}+|\\.){0,1000}+', re.DOTALL)
DIGITS = re.compile(rb"[0-9]++")
DIGITS_ALIKE = bytes(ord("0") if byte in b"0123456789" else byte for byte in range(256))  #: a table for `translate`
PIECE_BYTES = 1 << 20


def excess(*texts: bytes) -> str:
    """What the JSON texts together have too much of; empty where they may be decoded. What strings spell does not
    count."""
    if sum(map(len, texts)) <= MAX_NODES:
        return ""
    has_long_run = any(map(_has_long_run, texts))
    counts = [_counts(text, 0, len(text)) for text in texts]
    if not has_long_run and not _too_many(sum(nodes for nodes, _ in counts), sum(commas for _, commas in counts)):
        return ""
    num_nodes = num_commas = 0
    for text in texts:
        for num_strings, (start, end) in enumerate(_outside_strings(text)):
            nodes, commas = _counts(text, start, end)
            num_nodes, num_commas = num_nodes + nodes, num_commas + commas
            if found := _too_many(num_nodes, num_commas):
                return found
            if has_long_run and any(len(run[0]) > MAX_DIGITS for run in DIGITS.finditer(text, start, end)):
                return f"a number of more than {MAX_DIGITS} digits"
            if num_strings > num_nodes + num_commas + 1:  # it is not JSON
                break
    return ""


def _outside_strings(text: bytes) -> Iterator[tuple[int, int]]:
    """Intervals [start, end) between the strings, the first one before the first string."""
    start = 0
    while start < len(text):
        quote = text.find(b'"', start)
        end = quote if quote >= 0 else len(text)
        yield start, end
        start = string_end(text, end + 1)


def _has_long_run(text: bytes) -> bool:
    """Whether more digits than a number may have follow each other somewhere, be it in a string."""
    longest = b"0" * (MAX_DIGITS + 1)
    pieces = (text[start : start + PIECE_BYTES + MAX_DIGITS] for start in range(0, len(text), PIECE_BYTES))
    return any(longest in piece.translate(DIGITS_ALIKE) for piece in pieces)


def string_end(text: bytes, start: int) -> int:
    """Behind the string whose first character is at `start`; the text's length or more where it does not end."""
    while start < len(text) and text[start] != QUOTE:
        piece = STRING_PIECE.match(text, start)
        if piece is None or piece.end() == start:  # a backslash, and nothing after it
            return len(text)
        start = piece.end()
    return start + 1


def _counts(text: bytes, start: int, end: int) -> tuple[int, int]:
    """Openings and colons, and commas, in [start, end)."""
    num_nodes = text.count(b"{", start, end) + text.count(b"[", start, end) + text.count(b":", start, end)
    return num_nodes, text.count(b",", start, end)


def _too_many(num_nodes: int, num_commas: int) -> str:
    if num_nodes > MAX_NODES:
        return f"more than {MAX_NODES} objects, lists and members of objects"
    return f"more than {MAX_VALUES} values" if num_commas >= MAX_VALUES else ""
