"""The JSON scanner against the standard library's parser."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from baton.services.router.tools.json_scan import MAX_DEPTH, JsonScanner, Scan, is_json
from tests.services.router.tools.outputs import CUTS, pieces_of, values

PIECES = ("0", "1", "-", ".", "e", "+", "t", "rue", "null", "u00e9", "a", "\x01", *'{}[]",:\\ \n')
SOUP = st.lists(st.sampled_from(PIECES)).map("".join)


def refuse(word: str) -> None:
    raise ValueError(word)


def library_says(text: str) -> bool:
    try:
        json.loads(text, parse_constant=refuse)
    except ValueError:
        return False
    return True


@given(SOUP)
def test_what_is_json(text: str) -> None:
    assert is_json(text) == library_says(text)


@given(values(st.text(max_size=5)), st.sampled_from([None, 1]), st.booleans(), CUTS)
def test_a_value_ends_where_it_ends(value: Any, indent: int | None, ensure_ascii: bool, cuts: list[int]) -> None:
    text = json.dumps([value], indent=indent, ensure_ascii=ensure_ascii)
    scanner = JsonScanner()
    for piece in pieces_of(text, cuts):
        assert scanner.state is Scan.MORE
        assert scanner.feed(piece, 0) == len(piece)
    assert scanner.state is Scan.DONE
    assert JsonScanner().feed(text + "]x", 0) == len(text)


@given(values(st.text("a\"\\é", max_size=3)), st.integers(0, 1000), SOUP)
def test_it_stops_at_the_first_character_that_cannot_be_there(value: Any, cut: int, rest: str) -> None:
    """Whatever was read before is the beginning of some JSON."""
    whole = json.dumps([value])
    text = whole[: cut % len(whole)] + rest
    scanner = JsonScanner()
    at = scanner.feed(text, 0)
    if scanner.state is Scan.BAD:
        again = JsonScanner()
        assert again.feed(text[:at], 0) == at
        assert again.state is Scan.MORE


@pytest.mark.parametrize("text", ["-0.5E+10", "0", " [1]\n", '"\\/\\u12aF"', "-1e5"])
def test_json(text: str) -> None:
    assert is_json(text)


@pytest.mark.parametrize(
    "text", ["", "01", "1.", ".5", "+1", "-", "1e", "NaN", "[1,]", '{"a":1,}', "{1:2}", '"\\x"', "1 2"]
)
def test_no_json(text: str) -> None:
    assert not is_json(text)


def test_depth_is_bounded() -> None:
    assert is_json("[" * MAX_DEPTH + "]" * MAX_DEPTH)
    assert not is_json("[" * (MAX_DEPTH + 1) + "]" * (MAX_DEPTH + 1))
