"""Server-sent events: the same however the bytes are cut, and broken ones are said."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from baton.services.loadgen import sse
from baton.services.loadgen.sse import Event, EventParser, SseMalformed

STREAM = (
    b'\xef\xbb\xbf: hello\n\ndata: {"a":1}\n\nevent: note\ndata:first\r\ndata:  second\r\n\r\nid: 7\nretry: 10\n'
    b"data\n\ndata: x\r\rdata: \xc3\xa9\n:\n\ndata: [DONE]\n\n"
)
EVENTS = [
    Event(b'{"a":1}'),
    Event(b"first\n second", b"note"),
    Event(b""),
    Event(b"x"),
    Event("é".encode()),
    Event(b"[DONE]"),
]


def events_of(pieces: list[bytes]) -> list[Event]:
    parser = EventParser()
    return [event for piece in pieces for event in parser.feed(piece)]


def test_events_are_read_with_all_ends_of_lines_comments_and_names() -> None:
    assert events_of([STREAM]) == EVENTS


def test_a_stream_cut_at_any_byte_gives_the_same_events() -> None:
    for at in range(len(STREAM) + 1):
        assert events_of([STREAM[:at], STREAM[at:]]) == EVENTS


def test_a_stream_that_comes_byte_by_byte_gives_the_same_events() -> None:
    assert events_of([bytes([byte]) for byte in STREAM]) == EVENTS


@given(
    st.lists(
        st.sampled_from([b"\n", b"\r", b"\r\n", b"data: a", b"data:b", b": c", b"event: d", b"data"]), max_size=30
    ),
    st.lists(st.integers(0, 200), max_size=8),
)
def test_cuts_change_nothing(parts: list[bytes], cuts: list[int]) -> None:
    stream = b"".join(part if part.strip() == b"" else part + b"\n" for part in parts)
    borders = [0, *sorted(min(cut, len(stream)) for cut in cuts), len(stream)]
    pieces = [stream[begin:end] for begin, end in itertools.pairwise(borders)]
    assert events_of(pieces) == events_of([stream])


def test_what_is_no_field_is_said_with_the_line() -> None:
    with pytest.raises(SseMalformed, match='"error"'):
        EventParser().feed(b'{"error": "x"}\n\n')


def test_an_event_may_be_long_but_not_without_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    text = b"x" * (3 << 20)
    pieces = [b"data: ", *(text[at : at + 65536] for at in range(0, len(text), 65536)), b"\n\n"]
    assert events_of(pieces) == [Event(text)]
    monkeypatch.setattr(sse, "MAX_EVENT_BYTES", 1000)
    parser = EventParser()
    parser.feed(b"data: " + b"x" * 600 + b"\n")
    with pytest.raises(SseMalformed, match="more than 1000 bytes"):
        parser.feed(b"data: " + b"x" * 600)


def test_the_bound_is_of_one_event_and_not_of_the_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sse, "MAX_EVENT_BYTES", 1000)
    parser = EventParser()
    for _ in range(10):
        parser.feed(b"data: " + b"x" * 600)
        assert len(parser.feed(b"\n\n")) == 1


def test_an_event_without_its_empty_line_is_none_and_that_can_be_asked() -> None:
    parser = EventParser()
    assert parser.is_between_events
    assert parser.feed(b"data: [DONE]\n") == []
    assert not parser.is_between_events
    assert parser.feed(b"\n") == [Event(b"[DONE]")]
    assert parser.is_between_events
