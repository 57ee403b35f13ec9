"""One end of a link: handshake, numbering, heartbeats; every loss shows and is repaired by a new session."""

from __future__ import annotations

from collections import deque
from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from baton.core.ids import Peer, Role
from baton.core.session.machine import Down, Heard, LinkTiming, Rejected, Session, Transmit, Up
from baton.core.wire import frames as f
from baton.core.wire.codec import encode_peer

ROUTER, DECODE = Peer("router", Role.ROUTER, 3), Peer("decode", Role.DECODE, 5)
TIMING = LinkTiming(heartbeat_s=1.0, silence_s=3.5)


class Ends:
    """Both ends of one link and the frames that are under way. Down, Up and Heard are collected by end."""

    def __init__(self, refusal: str | None = None) -> None:
        self.now = 0.0
        self.dialing = Session(ROUTER, "link", True, lambda peer: None, TIMING, count(1))
        self.accepting = Session(DECODE, "link", False, lambda peer: refusal, TIMING, count(1))
        self.wire: dict[str, deque[bytes]] = {"dialing": deque(), "accepting": deque()}
        self.seen: dict[str, list] = {"dialing": [], "accepting": []}

    def end(self, name: str) -> Session:
        return self.dialing if name == "dialing" else self.accepting

    def take(self, name: str, outcomes) -> None:
        other = "accepting" if name == "dialing" else "dialing"
        for outcome in outcomes:
            if isinstance(outcome, Transmit):
                self.wire[other].append(outcome.data)
            else:
                self.seen[name].append(outcome)

    def dial(self) -> None:
        self.take("dialing", self.dialing.dial(self.now))

    def deliver(self, name: str) -> None:
        self.take(name, self.end(name).hear(f.decode_frame(self.wire[name].popleft()), self.now))

    def flow(self) -> None:
        while any(self.wire.values()):
            for name, frames in self.wire.items():
                if frames:
                    self.deliver(name)

    def say(self, name: str, body: bytes) -> None:
        self.take(name, self.end(name).say([body]))

    def tick(self, seconds: float) -> None:
        self.now += seconds
        for name in self.wire:
            wake = self.end(name).next_wake
            if wake is not None and wake <= self.now:
                self.take(name, self.end(name).wake(self.now))

    def heard(self, name: str) -> list[bytes]:
        return [outcome.body for outcome in self.seen[name] if isinstance(outcome, Heard)]


def up() -> Ends:
    ends = Ends()
    ends.dial()
    ends.flow()
    return ends


def test_a_handshake_tells_both_ends_who_the_other_is():
    ends = up()
    assert ends.seen == {"dialing": [Up(DECODE)], "accepting": [Up(ROUTER)]}


def test_messages_arrive_once_and_in_order_both_ways():
    ends = up()
    for number in range(3):
        ends.say("dialing", b"%d" % number)
        ends.say("accepting", b"%d" % number)
    ends.flow()
    assert ends.heard("dialing") == ends.heard("accepting") == [b"0", b"1", b"2"]


def test_nothing_is_said_without_a_session():
    ends = Ends()
    ends.say("dialing", b"lost")
    ends.say("accepting", b"lost")
    assert not any(ends.wire.values())


def test_a_duplicate_is_dropped():
    ends = up()
    ends.say("dialing", b"once")
    ends.wire["accepting"].append(ends.wire["accepting"][0])
    ends.flow()
    assert ends.heard("accepting") == [b"once"]


@pytest.mark.parametrize("loser", ["dialing", "accepting"])
def test_a_gap_resets_the_session_and_both_ends_begin_a_new_one(loser):
    ends = up()
    other = "accepting" if loser == "dialing" else "dialing"
    ends.say(other, b"lost")
    ends.wire[loser].clear()
    ends.say(other, b"next")
    ends.flow()
    assert ends.heard(loser) == []
    for name in ("dialing", "accepting"):
        assert [type(outcome) for outcome in ends.seen[name] if not isinstance(outcome, Heard)] == [Up, Down, Up]
    ends.say(other, b"again")
    ends.flow()
    assert ends.heard(loser) == [b"again"]


def test_a_loss_of_the_last_message_shows_with_the_next_heartbeat():
    ends = up()
    ends.say("dialing", b"lost")
    ends.wire["accepting"].clear()
    ends.tick(1.0)
    ends.flow()
    assert Down(ROUTER, "frame 0 is missing") in ends.seen["accepting"]
    assert ends.dialing.peer == DECODE


def test_heartbeats_keep_a_quiet_session_up():
    ends = up()
    for _ in range(20):
        ends.tick(1.0)
        ends.flow()
    assert ends.seen == {"dialing": [Up(DECODE)], "accepting": [Up(ROUTER)]}


def test_silence_ends_the_session_at_both_ends_and_the_dialing_one_knocks_until_it_is_answered():
    ends = up()
    for _ in range(5):
        ends.tick(1.0)
        for frames in ends.wire.values():
            frames.clear()
    assert Down(DECODE, "silence") in ends.seen["dialing"]
    assert Down(ROUTER, "silence") in ends.seen["accepting"]
    assert ends.accepting.next_wake is None
    ends.tick(1.0)
    ends.flow()
    assert (ends.dialing.peer, ends.accepting.peer) == (DECODE, ROUTER)


def test_c28_each_end_says_when_it_wants_to_be_woken():
    ends = up()
    assert ends.dialing.next_wake == ends.accepting.next_wake == 1.0


def test_frames_of_an_old_session_change_nothing():
    ends = up()
    ends.say("dialing", b"old")
    old = ends.wire["accepting"].popleft()
    ends.dial()
    ends.flow()
    ends.wire["accepting"].append(old)
    ends.flow()
    assert ends.heard("accepting") == []
    assert ends.accepting.peer == ROUTER
    ends.say("dialing", b"new")
    ends.flow()
    assert ends.heard("accepting") == [b"new"]


def test_a_frame_of_a_session_that_the_accepting_end_forgot_is_answered_with_a_reset():
    ends = up()
    ends.accepting = Session(DECODE, "link", False, lambda peer: None, TIMING, count(5))  # it was started again
    ends.say("dialing", b"hello?")
    ends.flow()
    assert Down(DECODE, "the peer reset the session") in ends.seen["dialing"]
    assert ends.dialing.peer == DECODE


def test_resets_never_circle():
    ends = up()
    for session in (0, 1, 77):
        assert ends.dialing.hear(f.Data(session, 0, ()), ends.now) == []
        assert ends.dialing.hear(f.Beat(session, 0), ends.now) == []
        assert ends.dialing.hear(f.Reset(session), ends.now) == []
        assert ends.accepting.hear(f.Reset(session), ends.now) == []
    assert ends.accepting.hear(f.Welcome(1, 1, b""), ends.now) == []
    assert ends.accepting.hear(f.Reject(1, ""), ends.now) == []


def test_a_hello_that_is_said_again_is_welcomed_again_without_a_new_session():
    ends = Ends()
    ends.dial()
    ends.wire["accepting"].append(ends.wire["accepting"][0])
    ends.flow()
    assert ends.seen == {"dialing": [Up(DECODE)], "accepting": [Up(ROUTER)]}


def test_kvt_08_another_protocol_version_is_rejected_before_its_body_is_read():
    ends = Ends()
    ends.dial()
    ends.wire["accepting"].clear()
    knock = ends.dialing._knocked
    ends.take("accepting", ends.accepting.hear(f.Hello(f.PROTOCOL_VERSION + 1, knock, b"\xc1 unreadable"), 0.0))
    ends.flow()
    assert isinstance(ends.seen["accepting"][0], Rejected)
    assert "version" in ends.seen["dialing"][0].detail


def test_kvt_08_a_refused_pair_has_no_session_and_is_tried_again_later():
    ends = Ends(refusal="another model")
    ends.dial()
    ends.flow()
    assert ends.seen == {"dialing": [Rejected("another model")], "accepting": [Rejected("another model")]}
    assert ends.dialing.next_wake is not None
    ends.tick(1.0)
    assert len(ends.wire["accepting"]) == 1


def test_the_dialing_end_refuses_too():
    session = Session(ROUTER, "link", True, lambda peer: "not you", TIMING, count(1))
    session.dial(0.0)
    assert session.hear(f.Welcome(session._knocked, 1, encode_peer(DECODE)), 0.0) == [Rejected("not you")]
    assert session.peer is None


def test_a_closed_end_tells_its_peer():
    ends = up()
    ends.take("dialing", ends.dialing.close())
    ends.flow()
    assert Down(ROUTER, "the peer reset the session") in ends.seen["accepting"]


def test_numbers_of_two_lives_never_meet():
    knocks, sessions = set(), set()
    for epoch in (1, 2, 3):
        dialing = Session(Peer("router", Role.ROUTER, epoch), "link", True, lambda peer: None, TIMING, count(1))
        accepting = Session(Peer("decode", Role.DECODE, epoch), "link", False, lambda peer: None, TIMING, count(1))
        for _ in range(50):
            (hello,) = (f.decode_frame(outcome.data) for outcome in dialing.dial(0.0))
            welcome = next(o.data for o in accepting.hear(hello, 0.0) if isinstance(o, Transmit))
            knocks.add(hello.knock)
            sessions.add(f.decode_frame(welcome).session)
    assert len(knocks) == len(sessions) == 150


def test_a_doubled_hello_joins_no_new_session_to_the_old_half_of_the_other_end():
    ends = Ends()
    ends.dial()
    doubled = ends.wire["accepting"][0]
    ends.flow()
    ends.say("dialing", b"once")
    said = ends.wire["accepting"][0]
    ends.flow()
    ends.take("accepting", ends.accepting.reset("silence", ends.now))
    ends.wire["dialing"].clear()  # the reset is lost
    ends.wire["accepting"].extend([doubled, said])
    ends.flow()
    assert ends.heard("accepting") == [b"once"]
    assert Down(DECODE, "another session was begun") in ends.seen["dialing"]
    assert (ends.dialing.peer, ends.accepting.peer) == (DECODE, ROUTER)


def test_a_lost_welcome_joins_no_two_lives_of_the_accepting_end():
    ends = Ends()
    ends.dial()
    ends.deliver("accepting")
    welcome = ends.wire["dialing"].popleft()
    ends.accepting = Session(replace(DECODE, epoch=6), "link", False, lambda peer: None, TIMING, count(1))
    ends.tick(1.0)
    ends.deliver("accepting")  # the second life begins a session for the same knock
    ends.wire["dialing"].appendleft(welcome)  # and the first one's answer comes late
    ends.flow()
    assert ends.dialing.peer == replace(DECODE, epoch=6)


@given(st.data())
def test_whatever_the_link_loses_or_doubles_each_session_is_a_prefix_of_what_was_said_in_it(data):
    ends = Ends()
    ends.dial()
    said: dict[str, list[list[bytes]]] = {"dialing": [[]], "accepting": [[]]}
    number = 0
    for _ in range(data.draw(st.integers(1, 40))):
        name = data.draw(st.sampled_from(["dialing", "accepting"]))
        match data.draw(st.sampled_from(["say", "deliver", "deliver", "lose", "double", "tick"])):
            case "say":
                number += 1
                ends.say(name, b"%d" % number)
            case "deliver" if ends.wire[name]:
                ends.deliver(name)
            case "lose" if ends.wire[name]:
                ends.wire[name].popleft()
            case "double" if ends.wire[name]:
                ends.wire[name].append(ends.wire[name][0])
            case "tick":
                ends.tick(data.draw(st.sampled_from([0.5, 1.0, 4.0])))
    for name in said:
        bodies = [int(body) for body in ends.heard(name)]
        assert bodies == sorted(set(bodies))
        kinds = [type(outcome) for outcome in ends.seen[name] if isinstance(outcome, (Up, Down))]
        assert kinds[::2] == [Up] * len(kinds[::2])
        assert kinds[1::2] == [Down] * len(kinds[1::2])
    for _ in range(6):
        ends.flow()
        ends.tick(1.0)
    ends.flow()
    assert (ends.dialing.peer, ends.accepting.peer) == (DECODE, ROUTER)
