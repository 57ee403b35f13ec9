"""The outermost frames: read before anything is known of the peer, so nothing in them is trusted."""

from __future__ import annotations

import itertools

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from baton.core.errors import BadMessage
from baton.core.wire import frames as f

FRAMES = [
    f.Hello(1, 2**60, b"body"),
    f.Welcome(5, 6, b""),
    f.Reject(5, "why"),
    f.Data(5, 0, (bytes(100), b"")),
    f.Beat(5, 7),
    f.Reset(5),
]


@pytest.mark.parametrize("frame", FRAMES, ids=lambda frame: type(frame).__name__)
def test_every_frame_round_trips(frame):
    assert f.decode_frame(f.encode_frame(frame)) == frame


@given(st.binary(max_size=200))
def test_zmq_04_random_bytes_are_a_bad_message_or_a_frame(data):
    try:
        frame = f.decode_frame(data)
    except BadMessage:
        return
    assert isinstance(frame, f.Frame)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xc1",
        b"GET / HTTP/1.0\r\n\r\n",
        b"\x91" * 100_000,
        b"\x81\xa1a" * 50_000,
        b"\xdd\xff\xff\xff\xff",
        b"\xc6\xff\xff\xff\xff",
        msgpack.packb({"type": 4}),
        msgpack.packb([4, "five", 0, [b""]]),
        msgpack.packb([4, 5, 0]),
        msgpack.packb([99, 5]),
        msgpack.packb([4, 2**64 - 1, -1, ["text"]]),
        msgpack.packb([4, 5, 0, b"body"]),
        msgpack.packb([1, 1, 1, "no bytes"]),
    ],
    ids=repr,
)
def test_zmq_04_foreign_bytes_are_refused(data):
    with pytest.raises(BadMessage):
        f.decode_frame(data)


def test_a_frame_beyond_the_limit_is_refused_before_it_is_decoded(monkeypatch):
    monkeypatch.setattr(f, "MAX_FRAME_BYTES", 10)
    with pytest.raises(BadMessage, match="at most 10"):
        f.decode_frame(f.encode_frame(f.Data(1, 1, (bytes(20),))))


@given(st.lists(st.binary(max_size=12)), st.integers(1, 20))
def test_batches_keep_all_messages_in_order_and_only_a_lone_one_is_larger_than_the_limit(bodies, limit):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(f, "MAX_BATCH_BYTES", limit)
        batches = list(f.batches(bodies))
    assert [body for batch in batches for body in batch] == bodies
    assert all(len(batch) == 1 or sum(map(len, batch)) <= limit for batch in batches)
    assert all(sum(map(len, one)) + len(two[0]) > limit for one, two in itertools.pairwise(batches))
