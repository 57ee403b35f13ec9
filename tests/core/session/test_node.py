"""A process and its links: who may talk, which link counts, what a bad peer can do to it (nothing)."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from baton.core.events import ConnectLink, DropLink, Note, PeerDown, PeerUp, Received, Send, Several, Wake
from baton.core.ids import AttemptId, Peer, Role
from baton.core.session.machine import LinkTiming, Transmit
from baton.core.session.node import CloseLink, FrameArrived, LinkFull, LinkGone, Node, OpenLink
from baton.core.wire import frames as f
from baton.core.wire import messages as m
from baton.core.wire.codec import encode_message, encode_peer
from tests.support.expect import like, only
from tests.support.machines import LAYOUT, ROUTER, SCHEDULER, D, P
from tests.support.peers import Caller, Silent


def node_of(own: Peer = D) -> tuple[Node, Silent]:
    machine = Silent()
    return Node(own, machine, LinkTiming(1.0, 3.5)), machine


def test_a_caller_is_welcomed_and_its_messages_are_heard():
    node, machine = node_of()
    caller = Caller(node, ROUTER)
    caller.dial()
    caller.say(m.Abort(AttemptId(1, 0)))
    assert machine.heard == [PeerUp(ROUTER), Received(ROUTER, m.Abort(AttemptId(1, 0)))]


def test_what_a_machine_says_goes_to_the_session_of_that_peer_numbered_from_zero():
    node, machine = node_of()
    machine.answers = [[Send("router", m.Holding(()))], [Send("router", m.Holding(())), Send("nobody", m.Holding(()))]]
    caller = Caller(node, ROUTER)
    caller.dial()
    caller.say(m.Abort(AttemptId(1, 0)))
    data = [frame for frame in caller.said if isinstance(frame, f.Data)]
    assert [frame.number for frame in data] == [0, 1]
    assert data[0].bodies == (encode_message(m.Holding(())),)


def test_what_a_machine_says_in_one_turn_goes_in_one_frame_in_order():
    node, machine = node_of()
    caller, other = Caller(node, ROUTER), Caller(node, SCHEDULER)
    caller.dial()
    other.dial()
    said = [m.Holding((AttemptId(number, 0),)) for number in range(3)]
    to_router = [Send("router", one) for one in said]
    machine.answers = [[to_router[0], Send("scheduler", m.Draining()), *to_router[1:]]]
    out = caller.say(m.Abort(AttemptId(1, 0)))
    frames = [(command.link, f.decode_frame(command.data)) for command in only(out, Transmit)]
    assert [(link, frame.bodies) for link, frame in frames] == [
        (caller.link, tuple(encode_message(one) for one in said)),
        (other.link, (encode_message(m.Draining()),)),
    ]


def test_what_was_said_before_a_session_ends_in_the_same_turn_is_sent_in_it():
    node, machine = node_of()
    caller = Caller(node, ROUTER)
    caller.dial()
    machine.answers = [[Send("router", m.Holding(()))]]
    out = caller.frame(f.Data(caller.session, 0, (encode_message(m.Abort(AttemptId(1, 0))), b"no message")))
    frames = [f.decode_frame(command.data) for command in only(out, Transmit)]
    assert frames == [f.Data(caller.session, 0, (encode_message(m.Holding(())),)), f.Reset(caller.session)]


def test_the_messages_of_a_frame_are_one_turn_of_the_machine():
    node, machine = node_of()
    caller = Caller(node, ROUTER)
    caller.dial()
    said = [m.Abort(AttemptId(number, 0)) for number in range(3)]
    machine.answers = [[Send("router", m.Holding(()))]]
    out = node.handle(caller.data(*said), 100.0)
    assert machine.heard == [PeerUp(ROUTER), Several(tuple(Received(ROUTER, one) for one in said))]
    assert len(only(out, Transmit)) == 1


def test_what_comes_together_from_several_peers_and_threads_is_one_turn_of_the_machine():
    node, machine = node_of()
    caller, other = Caller(node, ROUTER), Caller(node, SCHEDULER)
    caller.dial()
    other.dial()
    machine.heard.clear()
    machine.answers = [[Send("router", m.Holding(())), Send("scheduler", m.Draining()), Send("router", m.Holding(()))]]
    abort, returned = m.Abort(AttemptId(1, 0)), m.Returned(3)
    out = node.handle(Several((caller.data(abort), "a thread's", other.data(returned))), 100.0)
    assert machine.heard == [Several((Received(ROUTER, abort), "a thread's", Received(SCHEDULER, returned)))]
    assert [command.link for command in only(out, Transmit)] == [caller.link, other.link]


def test_a_session_that_ends_and_begins_in_between_parts_the_machines_turns():
    node, machine = node_of()
    caller = Caller(node, ROUTER)
    caller.dial()
    abort = m.Abort(AttemptId(1, 0))
    machine.answers = [[Send("router", m.Holding((AttemptId(1, 0),)))], [], [Send("router", m.Draining())], []]
    hello = f.Hello(f.PROTOCOL_VERSION, caller.knock + 1, encode_peer(ROUTER))
    before = caller.data(abort)
    out = node.handle(Several((before, FrameArrived(caller.link, f.encode_frame(hello)), "after")), 100.0)
    assert [type(event) for event in machine.heard] == [PeerUp, Received, PeerDown, PeerUp, str]
    frames = [f.decode_frame(command.data) for command in only(out, Transmit)]
    assert [type(frame) for frame in frames] == [f.Welcome, f.Data]
    assert frames[1].bodies == (encode_message(m.Draining()),)  # nothing of what was said in the old session
    assert frames[1].session == frames[0].session


def test_the_newest_link_of_a_peer_wins_and_the_old_one_is_told():
    node, machine = node_of()
    first, second = Caller(node, ROUTER, "router/1"), Caller(node, ROUTER, "router/2")
    first.dial()
    out = second.dial()
    assert [type(event) for event in machine.heard] == [PeerUp, PeerDown, PeerUp]
    assert any(isinstance(c, Transmit) and c.link == "router/1" for c in out)
    machine.answers = [[Send("router", m.Holding(()))]]
    out = second.say(m.Abort(AttemptId(1, 0)))
    assert [c.link for c in only(out, Transmit)] == ["router/2"]


def test_sec_02_a_link_speaks_for_no_other_name_than_its_own():
    node, machine = node_of()
    Caller(node, ROUTER).dial()
    liar = Caller(node, replace(ROUTER, epoch=9), "router2/9")
    out = liar.dial()
    assert isinstance(liar.said[-1], f.Reject)
    assert "speaks for no router" in only(out, Note)[0].detail
    assert machine.heard == [PeerUp(ROUTER)]


def test_a_link_that_was_forgotten_gets_no_session_number_twice():
    node, _ = node_of()
    caller = Caller(node, ROUTER)
    caller.dial()
    first = caller.session
    node.handle(LinkFull(caller.link), 100.1)  # its Reset is lost in the full socket
    caller.frame(f.Hello(f.PROTOCOL_VERSION, caller.knock, encode_peer(ROUTER)))  # the same knock again
    assert caller.said[-1] != first
    assert caller.session != first


def test_sec_02_a_name_speaks_for_its_own_role_alone():
    node, machine = node_of()
    for liar in (replace(ROUTER, role=Role.DECODE), replace(D, name="router"), replace(D, name="d")):
        caller = Caller(node, liar)
        out = caller.dial()
        assert isinstance(caller.said[-1], f.Reject)
        assert "is no name of a" in only(out, Note)[0].detail
    assert machine.heard == []


def test_sec_02_a_dialed_process_that_calls_itself_otherwise_is_not_taken_for_it():
    node, machine = node_of(ROUTER)
    hello = f.decode_frame(only(node.handle(ConnectLink(D), 100.0), Transmit)[0].data)
    node.handle(FrameArrived("decode", f.encode_frame(f.Welcome(hello.knock, 1, encode_peer(P)))), 100.1)
    assert machine.heard == []


def test_kvt_07_an_old_life_cannot_come_back_after_a_new_one():
    node, machine = node_of()
    Caller(node, replace(ROUTER, epoch=5)).dial()
    late = Caller(node, replace(ROUTER, epoch=4))
    out = late.dial()
    assert isinstance(late.said[-1], f.Reject)
    assert "epoch" in repr(only(out, Note)[0])
    assert len(machine.heard) == 1


def test_kvt_07_a_restarted_peer_begins_under_its_new_epoch():
    node, machine = node_of()
    Caller(node, ROUTER).dial()
    Caller(node, replace(ROUTER, epoch=2)).dial()
    ups = [(type(event).__name__, event.peer.epoch) for event in machine.heard]
    assert ups == [("PeerUp", 1), ("PeerDown", 1), ("PeerUp", 2)]


def test_kvt_08_executors_of_another_layout_are_rejected_with_the_reason():
    node, machine = node_of()
    odd = Caller(node, replace(P, layout_fingerprint=b"another model"))
    out = odd.dial()
    assert isinstance(odd.said[-1], f.Reject)
    assert "layout" in repr(only(out, Note)[0])
    assert machine.heard == []


@pytest.mark.parametrize("field", ["num_kv_layers", "num_kv_heads", "head_dim", "block_size"])
def test_kvt_08_every_number_of_the_geometry_and_the_model_count(field):
    other = replace(LAYOUT, **{field: getattr(LAYOUT, field) + 1})
    assert other.fingerprint() != LAYOUT.fingerprint()
    for name in ("dtype", "model_fingerprint", "tokenizer_fingerprint"):
        assert replace(LAYOUT, **{name: "bfloat16"}).fingerprint() != LAYOUT.fingerprint()


def test_processes_that_have_no_link_are_rejected():
    node, machine = node_of()
    stranger = Caller(node, Peer("decode2", Role.DECODE, 1, layout_fingerprint=D.layout_fingerprint))
    stranger.dial()
    assert isinstance(stranger.said[-1], f.Reject)
    assert machine.heard == []


def test_a_bad_message_resets_its_session_and_no_other():
    node, machine = node_of()
    bad, good = Caller(node, ROUTER), Caller(node, SCHEDULER)
    bad.dial()
    good.dial()
    out = bad.body(encode_message(m.Draining()))
    assert [note.what for note in only(out, Note)] == ["bad message", "peer lost"]
    assert not bad.is_up
    good.say(m.Abort(AttemptId(1, 0)))
    assert [type(event) for event in machine.heard] == [PeerUp, PeerUp, PeerDown, Received]
    bad.dial()
    assert bad.is_up


def test_zmq_04_a_bad_hello_leaves_nothing_behind():
    node, _ = node_of()
    for number in range(100):
        caller = Caller(node, ROUTER, f"link {number}")
        out = caller.frame(f.Hello(f.PROTOCOL_VERSION, 1, b"\xc1"))
        assert only(out, Note) == [like(Note)]
    assert node._sessions == {}


def test_a_full_link_is_a_lost_session():
    node, machine = node_of()
    caller = Caller(node, ROUTER)
    caller.dial()
    node.handle(LinkFull(caller.link), 101.0)
    node.handle(LinkFull("unknown"), 101.0)
    assert isinstance(machine.heard[-1], PeerDown)


def test_a_peer_that_holds_its_link_no_more_is_a_lost_session_and_said_to_be_gone():
    node, machine = node_of()
    caller = Caller(node, ROUTER)
    caller.dial()
    out = node.handle(LinkGone(caller.link), 101.0)
    assert only(out, Note)[0].detail == "the peer is gone"
    assert machine.heard[-1] == PeerDown(ROUTER, "the peer is gone")
    assert node.handle(LinkGone(caller.link), 101.0) == node.handle(LinkGone("unknown"), 101.0) == []


def test_a_dialed_link_is_opened_once_knocks_and_is_closed_on_demand():
    node, machine = node_of(ROUTER)
    out = node.handle(ConnectLink(D), 100.0)
    assert only(out, OpenLink, Transmit) == [OpenLink("decode", "at-decode"), like(Transmit, link="decode")]
    assert node.handle(ConnectLink(D), 100.0) == []
    assert node.next_wake == 101.0
    assert only(node.handle(Wake(), 101.0), Transmit) == [like(Transmit, link="decode")]
    hello = f.decode_frame(only(out, Transmit)[0].data)
    node.handle(FrameArrived("decode", f.encode_frame(f.Welcome(hello.knock, 1, encode_peer(D)))), 101.1)
    assert machine.heard == [PeerUp(D)]
    out = node.handle(DropLink("decode"), 102.0)
    assert only(out, CloseLink) == [CloseLink("decode")]
    assert machine.heard[-1] == PeerDown(D, "closed")
    assert node.handle(DropLink("decode"), 102.0) == []
    assert node.next_wake is None


def test_a_peer_that_moved_is_dialed_at_its_new_address():
    node, _ = node_of(ROUTER)
    node.handle(ConnectLink(D), 100.0)
    out = node.handle(ConnectLink(replace(D, epoch=2, address="elsewhere")), 100.0)
    assert only(out, CloseLink, OpenLink) == [CloseLink("decode"), OpenLink("decode", "elsewhere")]


def test_c28_the_node_wakes_for_its_links_and_for_its_machine():
    node, machine = node_of()
    assert node.next_wake is None
    machine.next_wake = 500.0
    node.handle(LinkFull("unknown"), 100.0)
    assert node.next_wake == 500.0
    Caller(node, ROUTER).dial()
    assert node.next_wake == 101.0
    machine.next_wake = 100.5
    node.handle(Wake(), 100.5)
    assert machine.heard[-1] == Wake()


def test_a_silent_peer_is_lost_after_a_while_and_its_session_is_forgotten():
    node, machine = node_of()
    Caller(node, ROUTER).dial()
    now = 100.0
    while node.next_wake is not None:
        now = node.next_wake
        node.handle(Wake(), now)
    assert now == 103.5
    assert machine.heard[-1] == PeerDown(ROUTER, "silence")
    assert node._sessions == {}
