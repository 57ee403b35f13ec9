"""Stop strings: the scanner against a slow twin that looks at the whole text after each character."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from baton.services.router.text.stop_strings import StopScanner

TEXTS = st.text("abé😀", max_size=40)
STOPS = st.lists(st.text("abé😀", min_size=1, max_size=5), min_size=1, max_size=4, unique=True).map(tuple)


def slow_match(text: str, stops: tuple[str, ...]) -> tuple[int, int] | None:
    """(end, length) of the match that ends first, the longest of those that end there."""
    for end in range(len(text) + 1):
        lengths = [len(stop) for stop in stops if text[:end].endswith(stop)]
        if lengths:
            return end, max(lengths)
    return None


def slow_held(text: str, stops: tuple[str, ...]) -> int:
    """The longest suffix that begins a stop string."""
    return max(
        count for stop in stops for count in range(len(stop)) if text.endswith(stop[:count]) and count <= len(text)
    )


def pieces_of(text: str, cuts: list[int]) -> list[str]:
    ends = sorted({*(cut % (len(text) + 1) for cut in cuts), len(text)})
    return [text[start:end] for start, end in zip([0, *ends], ends, strict=False)]


@given(TEXTS, STOPS, st.lists(st.integers(0, 50), max_size=10))
def test_the_match_is_the_same_however_the_text_is_cut(text: str, stops: tuple[str, ...], cuts: list[int]) -> None:
    scanner = StopScanner(stops)
    seen = 0
    expected = slow_match(text, stops)
    for piece in pieces_of(text, cuts):
        match = scanner.push(piece)
        if match is not None:
            assert (seen + match.end, match.length) == expected
            return
        seen += len(piece)
        assert scanner.num_held == slow_held(text[:seen], stops)
    assert expected is None


def test_of_two_that_end_together_the_longer_counts() -> None:
    assert StopScanner(("b", "ab")).push("xab") == (3, 2)


def test_a_border_inside_the_stop_string_is_not_lost() -> None:
    scanner = StopScanner(("aab",))
    assert scanner.push("aaa") is None
    assert scanner.num_held == 2
    assert scanner.push("b") == (1, 3)
