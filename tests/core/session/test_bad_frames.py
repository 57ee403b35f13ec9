"""ZMQ-04: whatever bytes a peer sends, the node counts them, goes on, and serves everyone else."""

from __future__ import annotations

from typing import Any

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from baton.core.config import ExecutorConfig, RouterConfig, SchedulerConfig
from baton.core.errors import InvariantViolated, Reason
from baton.core.events import Note
from baton.core.executor.machine import ExecutorCore
from baton.core.ids import AttemptId, Life, Peer, Role
from baton.core.knob_effects import with_effect
from baton.core.router.machine import RouterCore
from baton.core.scheduler.machine import SchedulerCore
from baton.core.session.node import FrameArrived, Node
from baton.core.wire import frames as f
from baton.core.wire import messages as m
from baton.core.wire.codec import encode_message
from tests.support.expect import only
from tests.support.machines import KEY, LAYOUT, ROUTER, SCHEDULER, D, P, packed, prompt, sampled, work
from tests.support.peers import Caller

ID = AttemptId(1, 0)
WORK = work(prompt(10))
ORDER = m.Order(0, 0, 1)


def executor(own: Peer) -> Node:
    config = ExecutorConfig(token_budget=64, num_slots=16, growth_reserve=8)
    return Node(own, ExecutorCore(own, LAYOUT, with_effect(config, own.role), KEY))


NODES = {
    "scheduler": (
        lambda: Node(SCHEDULER, SchedulerCore(SCHEDULER, SchedulerConfig())),
        [
            (ROUTER, [m.Submit(ID, WORK, 1000), m.Abort(ID)]),
            (D, [m.ExecutorInventory(((ID, 5),), 60, 16, (P.life,), bytes(16)), m.PairReady(P.life), m.Ended(ID)]),
            (P, [m.ExecutorInventory((), 60, 16, (), b""), m.CacheChanged(bytes(16), bytes(16)), m.Draining()]),
            (Peer("launcher", Role.LAUNCHER, 1), [m.Exited(Life("decode", 1))]),
        ],
    ),
    "decode": (
        lambda: executor(D),
        [
            (ROUTER, [m.RouterInventory(((ID, ((0, 0),)),)), m.Abort(ID), m.Stop(ID, 0, 1)]),
            (P, [m.TransportInfo(b"x", 1, 64), m.TransportProven(), m.ChunkPosted(1, 0, 8), m.ChunkLanded(1, 0)]),
            (P, [m.Sealed(1, 1, sampled(5)), m.TransferClosed(1, None)]),
            (SCHEDULER, [m.Exited(P.life), m.Roster((P, D)), m.Abort(ID)]),
        ],
    ),
    "prefill": (
        lambda: executor(P),
        [
            (D, [m.TransportInfo(b"x", 1, 64), m.Receive(1, ID, 0, packed([1, 2, 3]), 100), m.CloseTransfer(1)]),
            (ROUTER, [m.RouterInventory(()), m.Stop(ID, 0, 1)]),
            (SCHEDULER, [m.Exited(D.life), m.Roster((P, D))]),
        ],
    ),
    "router": (
        lambda: Node(ROUTER, RouterCore(ROUTER, RouterConfig())),
        [
            (SCHEDULER, [m.Placed(ID, P.life, D.life), m.Refusal(ID, Reason.DEADLINE), m.Roster((P, D))]),
            (D, [m.Records((m.Record(ID, 0, 0, sampled(5)),)), m.Holding((ID,)), m.AttemptFailed(ID, Reason.ABORTED)]),
        ],
    ),
}

SCRAPS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**64 - 1),
    st.floats(),
    st.text(max_size=5),
    st.binary(max_size=33),
    st.lists(st.integers(0, 3), max_size=3),
    st.dictionaries(st.text(max_size=2), st.integers(0, 3), max_size=2),
)


def mutate(data: st.DataObject, thing: Any) -> Any:
    """The same structure with one part replaced, dropped or doubled, at any depth."""
    if not isinstance(thing, list) or not thing or data.draw(st.integers(0, 3)) == 0:
        return data.draw(SCRAPS)
    index = data.draw(st.integers(0, len(thing) - 1))
    match data.draw(st.sampled_from(["into", "into", "into", "drop", "double"])):
        case "into":
            return [*thing[:index], mutate(data, thing[index]), *thing[index + 1 :]]
        case "drop":
            return [*thing[:index], *thing[index + 1 :]]
        case _:
            return [*thing[: index + 1], *thing[index:]]


def raw(message: m.Message) -> Any:
    return msgpack.unpackb(encode_message(message), use_list=True, strict_map_key=False)


def callers(node: Node, script: list[tuple[Peer, list[m.Message]]]) -> list[tuple[Caller, list[m.Message]]]:
    by_name: dict[str, Caller] = {}
    out = []
    for peer, said in script:
        if peer.name not in by_name:
            by_name[peer.name] = Caller(node, peer)
            by_name[peer.name].dial()
        out.append((by_name[peer.name], said))
    return out


@pytest.mark.parametrize("name", NODES)
@given(data=st.data())
def test_zmq_04_random_bytes_never_raise_and_others_are_served(name, data):
    make, script = NODES[name]
    node = make()
    ends = callers(node, script)
    for _ in range(data.draw(st.integers(1, 8))):
        caller, said = data.draw(st.sampled_from(ends))
        match data.draw(st.sampled_from(["junk link", "junk frame", "junk body", "cut", "flip"])):
            case "junk link":
                node.handle(FrameArrived("nobody", data.draw(st.binary(max_size=60))), 100.0)
            case "junk frame":
                caller.bytes(data.draw(st.binary(max_size=60)))
            case "junk body":
                caller.body(data.draw(st.binary(max_size=60)))
            case "cut":
                body = encode_message(data.draw(st.sampled_from(said)))
                caller.body(body[: data.draw(st.integers(0, len(body) - 1))])
            case "flip":
                frame = bytearray(f.encode_frame(f.Data(caller.session, caller.number, (encode_message(said[0]),))))
                frame[data.draw(st.integers(0, 3))] ^= 1 << data.draw(st.integers(0, 7))
                caller.bytes(bytes(frame))
        node.check_invariants()
        for other, _ in ends:
            if not other.is_up:
                other.dial()
    for caller, _ in ends:
        caller.dial()
        assert caller.is_up


@pytest.mark.parametrize("name", NODES)
@given(data=st.data())
def test_zmq_04_mutated_messages_never_raise_and_others_are_served(name, data):
    """Every part of every message replaced by anything: what passes the decoder is judged by the machine."""
    make, script = NODES[name]
    node = make()
    ends = callers(node, script)
    for _ in range(data.draw(st.integers(1, 6))):
        caller, said = data.draw(st.sampled_from(ends))
        message = data.draw(st.sampled_from(said))
        if data.draw(st.booleans()):
            caller.say(message)
        else:
            caller.body(msgpack.packb(mutate(data, raw(message)), use_bin_type=True))
        if not caller.is_up:
            caller.dial()
        node.check_invariants()
    for caller, _ in ends:
        caller.dial()
        assert caller.is_up


NEGATIVE, HUGE = -1, 2**63
NONSENSE = [
    ("scheduler", D, m.Credit(NEGATIVE, 0)),
    ("scheduler", D, m.Credit(0, HUGE)),
    ("scheduler", D, m.Reclaim(NEGATIVE)),
    ("scheduler", D, m.ExecutorInventory((), NEGATIVE, 1, (), b"")),
    ("scheduler", D, m.ExecutorInventory((), HUGE, 1, (), b"")),
    ("scheduler", ROUTER, m.Submit(ID, WORK, NEGATIVE)),
    ("scheduler", ROUTER, m.Submit(ID, WORK, 1000, HUGE)),
    ("scheduler", ROUTER, m.Submit(ID, WORK, 1000, 0, HUGE)),
    ("scheduler", ROUTER, m.Submit(ID, replace(WORK, num_choices=1 << 20), 1000)),
    ("prefill", D, m.Receive(1, ID, NEGATIVE, packed([1]), 1)),
    ("prefill", D, m.Receive(1, ID, 0, packed([1]), NEGATIVE)),
    ("decode", P, m.Sealed(1, NEGATIVE, sampled(1))),
    ("decode", P, m.ChunkPosted(1, NEGATIVE, 1)),
    ("decode", SCHEDULER, m.Decode(ID, WORK, m.Order(HUGE, 0, 0), P.life, 1, 1)),
]


@pytest.mark.parametrize(("name", "peer", "message"), NONSENSE, ids=lambda value: type(value).__name__)
def test_zmq_04_numbers_that_count_nothing_are_no_message(name, peer, message):
    node = NODES[name][0]()
    caller = Caller(node, peer)
    caller.dial()
    caller.say(m.ExecutorInventory((), 60, 16, (), b"")) if name == "scheduler" and peer is D else None
    caller.say(message)
    node.check_invariants()
    caller.dial()
    assert caller.is_up


def nested(depth: int) -> bytes:
    return b"\x91" * depth + b"\xc0"


@pytest.mark.parametrize(
    "data",
    [b"", b"\xc1", bytes(1 << 20), nested(50_000), b"GET / HTTP/1.0\r\n\r\n", b"\x80\x04\x95pickle", b"\xd4\x01x"],
    ids=["empty", "reserved", "a megabyte", "nested", "http", "pickle", "ext"],
)
@pytest.mark.parametrize("name", NODES)
def test_zmq_04_foreign_bytes_are_noted_and_dropped(name, data):
    make, script = NODES[name]
    node = make()
    ends = callers(node, script)
    assert len(only(node.handle(FrameArrived("a stranger", data), 100.0), Note)) == 1
    assert len(only(ends[0][0].bytes(data), Note)) == 1
    assert ends[0][0].is_up
    ends[0][0].body(data)
    ends[0][0].dial()
    assert all(caller.is_up for caller, _ in ends)
    assert "a stranger" not in node._sessions


@pytest.mark.parametrize(
    "message",
    [
        m.Run(ID, WORK, ORDER, 5000, 1000),
        m.Returned(5000),
    ],
    ids=str,
)
def test_zmq_04_a_scheduler_that_spends_what_it_does_not_have_stops_no_executor(message):
    own = Peer("u", Role.UNIFIED, 1, "", LAYOUT.fingerprint(), D.capacity)
    node = executor(own)
    caller = Caller(node, SCHEDULER)
    caller.dial()
    caller.say(message)
    node.check_invariants()


def test_a_bug_of_ours_is_loud():
    with pytest.raises(InvariantViolated):
        executor(D).handle(object(), 1.0)
