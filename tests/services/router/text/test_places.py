"""Where each token starts: the text of an answer, cut there, is the text of each token, whatever its bytes."""

from __future__ import annotations

import codecs
from typing import NamedTuple

from hypothesis import example, given
from hypothesis import strategies as st

from baton.core.executor.steps import SampledToken
from baton.services.router.text.choice_text import ChoiceText
from baton.services.router.text.echo import echo_prompt
from baton.services.router.text.token_table import TokenTable
from tests.services.router.rig import Rig, say
from tests.services.router.text.test_stop_strings import STOPS

PIECES = (
    *(bytes([byte]) for byte in b"ab \xc3\xa9\xf0\x9f\x98\x80\xe9\xed\xa0\xef\xbf\xbd\xff"),
    *(b"", b"ab", b"\xa9b", b"a\xc3", b"\xa9\xc3", b"\x98\x80a", "é😀".encode()),
)
END = len(PIECES)
NAMED = END + 1
TABLE = TokenTable((*PIECES, b"", b""), {END: "<end>", NAMED: "<name>"}, 6)
TOKENS = st.lists(st.integers(0, END - 1), min_size=1, max_size=20)
GROUPS = st.lists(st.integers(1, 5), max_size=20)
BROKEN = PIECES.index(b"\xe9")
A, B = PIECES.index(b"a"), PIECES.index(b"b")


def char_starts(data: bytes) -> list[int]:
    """For each byte the character of the decoded text that it is a part of; one U+FFFD for each broken sequence."""
    broken: list[tuple[int, int]] = []

    def note(error: UnicodeError) -> tuple[str, int]:
        assert isinstance(error, UnicodeDecodeError)
        broken.append((error.start, error.end))
        return "\ufffd", error.end

    codecs.register_error("note_broken", note)
    data.decode("utf-8", "note_broken")
    sizes, at = [], 0
    while at < len(data):
        lengths = [end - start for start, end in broken if start == at]
        lead = data[at]
        sizes.append(lengths[0] if lengths else 1 + (lead >= 0xC0) + (lead >= 0xE0) + (lead >= 0xF0))
        at += sizes[-1]
    return [index for index, size in enumerate(sizes) for _ in range(size)]


def places(tokens: list[int]) -> list[int]:
    """Where each token starts, by its first byte; one without bytes is where the next byte's character is."""
    data = b"".join(TABLE.pieces[token] for token in tokens)
    chars = [*char_starts(data), len(data.decode("utf-8", "replace"))]
    starts, at = [], 0
    for token in tokens:
        starts.append(chars[at])
        at += len(TABLE.pieces[token])
    return starts


class Taken(NamedTuple):
    text: str
    tokens: list[int]
    starts: list[int]


def taken(choice: ChoiceText, tokens: list[int], groups: list[int], finish: str, max_taken: int) -> Taken:
    """All of the choice after delivering the tokens in groups; each delta's text is that of its tokens."""
    found, offset, sizes = Taken("", [], []), 0, iter(groups)
    while not choice.finish:
        group = tokens[offset : offset + next(sizes, len(tokens))]
        is_last = offset + len(group) == len(tokens)
        choice.push(offset, tuple(SampledToken(0, token) for token in group), finish if is_last else "")
        offset += len(group)
        while (delta := choice.take(max_taken)) is not None:
            starts = [placed.start_char for placed in delta.tokens]
            assert all(start >= len(found.text) for start in starts)
            found = Taken(
                found.text + delta.text,
                found.tokens + [placed.sampled.token for placed in delta.tokens],
                found.starts + starts,
            )
    return found


def with_bytes(tokens: list[int], starts: list[int]) -> list[int]:
    """The places of tokens that have bytes; one without any, in the middle of a character, is at either end of it."""
    return [start for token, start in zip(tokens, starts, strict=True) if TABLE.pieces[token]]


@given(TOKENS, GROUPS, st.sampled_from(["stop", "length"]), st.integers(1, 9))
@example([BROKEN, A, B], [], "length", 99)
@example([BROKEN, BROKEN, A], [1, 1, 1], "stop", 1)
def test_a_token_is_where_its_text_starts(tokens: list[int], groups: list[int], finish: str, max_taken: int) -> None:
    given_tokens = [*tokens, END] if finish == "stop" else tokens
    found = taken(ChoiceText(TABLE, (), (END,), 0), given_tokens, groups, finish, max_taken)
    assert with_bytes(found.tokens, found.starts) == with_bytes(given_tokens, places(given_tokens))
    assert found.starts == sorted(found.starts)
    if finish == "stop":
        assert found.starts[-1] == len(found.text)
    ends = [*found.starts[1:], len(found.text)]
    slices = [found.text[start:end] for start, end in zip(found.starts, ends, strict=True)]
    assert found.text[: found.starts[0]] + "".join(slices) == found.text


@given(TOKENS, STOPS, GROUPS, GROUPS, st.integers(0, 6))
@example([BROKEN, A, B], ("a",), [], [1], 2)
def test_a_stop_string_leaves_the_tokens_that_start_before_it(
    tokens: list[int], stops: tuple[str, ...], first: list[int], second: list[int], min_tokens: int
) -> None:
    one = taken(ChoiceText(TABLE, stops, (END,), min_tokens), tokens, first, "length", 99)
    other = taken(ChoiceText(TABLE, stops, (END,), min_tokens), tokens, second, "length", 2)
    assert one == other
    assert len(one.tokens) >= min(min_tokens, len(tokens))
    if len(one.tokens) < len(tokens):
        assert all(start < len(one.text) for start in one.starts)
        assert places(tokens)[len(one.tokens)] >= len(one.text)


@given(st.lists(st.integers(0, NAMED), min_size=1, max_size=20))
@example([BROKEN, A])
@example([BROKEN, NAMED])
def test_an_echoed_token_is_where_its_text_starts(tokens: list[int]) -> None:
    echoed = echo_prompt(TABLE, tokens, None)
    assert list(echoed.starts) == sorted(echoed.starts)
    ends = [*echoed.starts[1:], len(echoed.text)]
    for token, start, end in zip(tokens, echoed.starts, ends, strict=True):
        if token in TABLE.control:
            assert echoed.text[start:end] == TABLE.control[token]
    if not TABLE.control.keys() & set(tokens):
        assert with_bytes(tokens, list(echoed.starts)) == with_bytes(tokens, places(tokens))


async def test_an_answer_says_these_places_with_and_without_its_prompt(rig: Rig) -> None:
    rig.machine.script = say(b"\xe9a\xc3\xa9b", "length")
    for fields, before in (({}, 0), ({"prompt": [0xE9, 0x61], "echo": True}, 2)):
        _, answer = await rig.complete(max_tokens=6, logprobs=0, **fields)
        (choice,) = answer["choices"]
        assert choice["text"][before:] == "\ufffdaéb"
        assert choice["logprobs"]["text_offset"][-5:] == [before + place for place in (0, 1, 2, 2, 3)]
        assert choice["logprobs"]["text_offset"][:-5] == [0, 1][:before]
