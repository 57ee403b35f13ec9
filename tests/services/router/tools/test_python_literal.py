"""The reader of Python literals against Python's own."""

from __future__ import annotations

import ast
import json
import math
import warnings
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from baton.services.router.tools.json_scan import MAX_DEPTH, Scan
from baton.services.router.tools.python_literal import LiteralReader
from tests.services.router.tools.outputs import CUTS, is_object, pieces_of, values

PIECES = ("k", "0", "7", "1.", "-", "e5", "x4a", "u00e9", "U0001F600", "n", "True", "None", *"[]{},:'\"\\ ")
SOUP = st.lists(st.sampled_from(PIECES)).map("".join)


def read(text: str, cuts: list[int]) -> tuple[Scan, str, int]:
    """(state, JSON, characters read) with something behind the literal, as in a call."""
    pieces: list[str] = []
    reader = LiteralReader(pieces.append)
    num_read = 0
    for piece in pieces_of(text + ")", cuts):
        if reader.state is Scan.MORE:
            num_read += reader.feed(piece, 0)
    return reader.state, "".join(pieces), num_read


def python_says(text: str) -> Any:
    """The value, if it is one that JSON has too; else `...`."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            value = ast.literal_eval(text.strip())
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return ...
    return value


def is_common(value: Any) -> bool:
    """Whether JSON has the value, and Python's grammar no second notation for it that the reader does not know."""
    if isinstance(value, dict):
        return all(isinstance(key, str) and is_common(inner) for key, inner in value.items())
    if isinstance(value, list):
        return all(map(is_common, value))
    return value is None or isinstance(value, bool | int | str) or (isinstance(value, float) and math.isfinite(value))


@given(values(st.text(max_size=6)), CUTS)
def test_what_python_writes(value: Any, cuts: list[int]) -> None:
    text = repr(value)
    state, written, num_read = read(text, cuts)
    assert (state, num_read) == (Scan.DONE, len(text))
    assert json.loads(written) == value


@given(values(st.text(max_size=6)), CUTS)
def test_what_json_writes(value: Any, cuts: list[int]) -> None:
    state, written, _ = read(json.dumps(value), cuts)
    assert state is Scan.DONE
    assert json.loads(written) == value


@given(SOUP, CUTS)
def test_whatever_is_read_means_what_python_says(text: str, cuts: list[int]) -> None:
    state, written, num_read = read(text, cuts)
    assert (state, written, num_read) == read(text, [])
    if state is Scan.DONE and is_common(expected := python_says(text[:num_read])):
        assert json.loads(written) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("'a\\x41\\u00e9\\U0001F600\\101\\0\\n\\'\\d'", "aAé😀A\0\n'\\d"),
        ("'\\\n'", ""),
        ("'\\1234'", "S4"),
        ("'\\ud83d\\ude00'", "😀"),
        ("[+1, -0, .5, 5., 1e5, -2.5E-3, 00]", [1, 0, 0.5, 5.0, 1e5, -2.5e-3, 0]),
        ("{'a': [True, False, None, true], }", {"a": [True, False, None, True]}),
        ("[ ]", []),
        ("'two\nlines'", "two\nlines"),
    ],
)
def test_notations(text: str, expected: Any) -> None:
    state, written, _ = read(text, list(range(len(text))))
    assert state is Scan.DONE
    assert json.loads(written) == expected


@pytest.mark.parametrize(
    "text",
    ["(1, 2)", "{1: 2}", "{'a'}", "[,]", "[1,,]", "[1}", "1_000", "0x1f", "01", "1+2", "'\\U00110000'", "'\\xg1'"],
)
def test_what_is_no_literal_here(text: str) -> None:
    assert read(text, [])[0] is Scan.BAD


def test_a_lone_surrogate_stays_an_escape() -> None:
    state, written, _ = read("{'k': '\\ud800'}", [])
    assert state is Scan.DONE
    assert written == '{"k": "\\ud800"}'
    assert is_object(written)


def test_depth_is_bounded() -> None:
    assert read("[" * MAX_DEPTH + "]" * MAX_DEPTH, [])[0] is Scan.DONE
    assert read("[" * (MAX_DEPTH + 1), [])[0] is Scan.BAD
