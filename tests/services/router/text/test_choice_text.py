"""A choice: tokens in any grouping give the same text, tokens and end, and they always end together."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from baton.core.errors import InvariantViolated
from baton.core.executor.steps import SampledToken
from baton.services.model.tiny import byte_tokenizer
from baton.services.router.text.choice_text import ChoiceText
from baton.services.router.text.token_table import build_table
from tests.services.router.text.test_stop_strings import STOPS, slow_match

TABLE = build_table(byte_tokenizer(), 260)
EOS = 257


def run(
    choice: ChoiceText, tokens: list[int], groups: list[int], finish: str, max_taken: int = 99
) -> tuple[str, list[int], str, int | None]:
    """(text, tokens, finish, stop offset) after delivering the tokens in groups, as far as they are taken."""
    text, released, offset, stop = "", [], 0, None
    sizes = iter(groups)
    while not choice.finish:
        size = next(sizes, len(tokens) + 1)
        group = tokens[offset : offset + size]
        is_last = offset + len(group) == len(tokens)
        stop = choice.push(offset, tuple(SampledToken(0, token) for token in group), finish if is_last else "")
        offset += len(group)
        while (delta := choice.take(max_taken)) is not None:
            text += delta.text
            released += [placed.sampled.token for placed in delta.tokens]
    assert choice.take(99) is None
    return text, released, choice.finish, stop


BYTES = st.one_of(
    st.text("abé😀", max_size=20).map(str.encode),
    st.lists(st.sampled_from(b"ab\xc3\xa9\xf0\x9f"), max_size=20).map(bytes),
)
GROUPS = st.lists(st.integers(1, 5), max_size=20)


@given(BYTES, STOPS, GROUPS, st.sampled_from(["stop", "length"]))
def test_any_grouping_gives_the_text_up_to_the_stop_string_and_its_tokens(
    data: bytes, stops: tuple[str, ...], groups: list[int], finish: str
) -> None:
    tokens = [*data, EOS] if finish == "stop" else list(data)
    if not tokens:
        return
    choice = ChoiceText(TABLE, stops, (EOS,), 0)
    text, released, finished, stop = run(choice, tokens, groups, finish)
    decoded = data.decode("utf-8", "replace")
    match = slow_match(decoded, stops)
    if match is None:
        assert (text, released, finished, stop) == (decoded, tokens, finish, None)
    else:
        assert text == decoded[: match[0] - match[1]]
        assert finished == "stop"
        assert released == tokens[: len(released)]
        assert stop in (None, len(released))
    assert choice.num_tokens == len(released)


@given(BYTES, STOPS, GROUPS, GROUPS, st.integers(0, 6))
def test_two_groupings_never_differ(
    data: bytes, stops: tuple[str, ...], first: list[int], second: list[int], min_tokens: int
) -> None:
    if not data:
        return
    answers = [
        run(ChoiceText(TABLE, stops, (EOS,), min_tokens), list(data), groups, "length", max_taken)
        for groups, max_taken in ((first, 99), (second, 2))
    ]
    assert answers[0][:3] == answers[1][:3]
    assert len(answers[0][1]) >= min(min_tokens, len(data))


@given(BYTES, GROUPS, st.sampled_from(["stop", "length"]))
def test_an_answer_that_shows_no_tokens_has_the_same_text_and_count(
    data: bytes, groups: list[int], finish: str
) -> None:
    tokens = [*data, EOS] if finish == "stop" else list(data)
    if not tokens:
        return
    kept, plain = ChoiceText(TABLE, (), (EOS,), 0), ChoiceText(TABLE, (), (EOS,), 0, keeps_tokens=False)
    expected, found = (run(choice, tokens, groups, finish) for choice in (kept, plain))
    assert (found[0], found[1], found[2:]) == (expected[0], [], expected[2:])
    assert plain.num_tokens == kept.num_tokens


@given(st.text("abé😀", min_size=1, max_size=20), STOPS)
def test_the_tokens_that_count_are_the_fewest_that_cover_the_text(text: str, stops: tuple[str, ...]) -> None:
    choice = ChoiceText(TABLE, stops, (EOS,), 0)
    shown, released, _, _ = run(choice, list(text.encode()), [1] * 200, "length")
    assert bytes(released) == shown.encode()


def test_nothing_that_may_begin_a_stop_string_is_shown() -> None:
    choice = ChoiceText(TABLE, ("###",), (EOS,), 0)
    choice.push(0, tuple(SampledToken(0, token) for token in b"ab##"), "")
    delta = choice.take(99)
    assert delta.text == "ab"
    assert [placed.sampled.token for placed in delta.tokens] == list(b"ab")
    choice.push(4, (SampledToken(0, ord("c")),), "")
    assert choice.take(99).text == "##c"


def test_what_was_held_is_shown_at_the_finish() -> None:
    choice = ChoiceText(TABLE, ("###",), (EOS,), 0)
    choice.push(0, tuple(SampledToken(0, token) for token in b"ab##"), "")
    choice.push(4, (SampledToken(0, EOS),), "stop")
    delta = choice.take(99)
    assert (delta.text, delta.finish) == ("ab##", "stop")


def test_a_finish_without_tokens_flushes_the_tail() -> None:
    choice = ChoiceText(TABLE, (), (EOS,), 0)
    choice.push(0, (SampledToken(0, 0xE9),), "")
    choice.push(1, (), "length")
    assert choice.take(99).text == "\ufffd"


def test_tokens_at_a_wrong_offset_are_a_bug_that_is_seen() -> None:
    choice = ChoiceText(TABLE, (), (), 0)
    with pytest.raises(InvariantViolated):
        choice.push(1, (SampledToken(0, 65),), "")
