"""How much one JSON text of a client may be made of. Its decoder lets no other thread run before it is through, so a
text of millions of values would hold up every stream, wherever it is decoded."""

from __future__ import annotations

import re

MAX_NODES = 1 << 16  #: objects, lists and members of objects: the decoder makes about six in a microsecond
MAX_VALUES = 1 << 18  #: and anything else, such as token ids: about 25
QUOTE = ord('"')
#: within a string; so short that other threads have their turns between two, however long the string is
STRING_PIECE = re.compile(rb'(?:[^"\\]{1,64}+|\\.){0,1000}+', re.DOTALL)


def excess(text: bytes) -> str:
    """What the JSON text has too much of; empty where it may be decoded. What its strings spell does not count."""
    if len(text) <= MAX_NODES or not _excess(*_counts(text, 0, len(text))):
        return ""
    start = num_nodes = num_commas = num_strings = 0
    while start < len(text) and num_strings <= num_nodes + num_commas + 1:  # with more of them it is not JSON
        quote = text.find(b'"', start)
        end = quote if quote >= 0 else len(text)
        nodes, commas = _counts(text, start, end)
        num_nodes, num_commas, num_strings = num_nodes + nodes, num_commas + commas, num_strings + 1
        if found := _excess(num_nodes, num_commas):
            return found
        start = string_end(text, end + 1)
    return ""


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


def _excess(num_nodes: int, num_commas: int) -> str:
    if num_nodes > MAX_NODES:
        return f"more than {MAX_NODES} objects, lists and members of objects"
    return f"more than {MAX_VALUES} values" if num_commas >= MAX_VALUES else ""
