"""Words that come late, twice, or to somebody whom they do not concern change nothing and end nobody."""

from __future__ import annotations

from msgspec.structs import replace

from baton.core.errors import Reason
from baton.core.events import ConnectLink, Wake
from baton.core.executor import events as ev
from baton.core.executor.placing import EARLY_S
from baton.core.ids import AttemptId, Peer, Role
from baton.core.wire import messages as m
from tests.support.expect import messages, only, says, the
from tests.support.machines import (
    ROUTER,
    SCHEDULER,
    D,
    ExecutorRig,
    P,
    decoder,
    packed,
    prefiller,
    prompt,
    send_to,
    unified,
    work,
)

LATER = replace(D, epoch=D.epoch + 1)  #: the next life of D


def test_words_of_an_agent_that_is_gone_change_nothing():
    rig = prefiller()
    before = rig.books()
    gone = (LATER.name, LATER.epoch)
    for event in (ev.TransportOpened(*gone, b"agent", 0), ev.TransportConnected(*gone), ev.TransportClosed(*gone)):
        assert rig.do(event) == []
    assert only(rig.do(ev.TransportFailed(*gone, "a reason")), ev.OpenTransport, ev.CloseTransport) == []
    assert rig.hear(LATER, m.TransportInfo(b"there", 0, 64)) == []
    assert rig.hear(LATER, m.TransferClosed(7, None)) == []
    assert rig.books() == before
    rig = decoder()
    assert only(rig.hear(replace(P, epoch=P.epoch + 1), m.TransportProven()), m.PairReady) == []


def test_an_agent_that_opens_or_connects_twice_is_introduced_once():
    rig = prefiller()
    again = rig.do(ev.TransportOpened(D.name, D.epoch, b"here", 0)) + rig.do(ev.TransportConnected(D.name, D.epoch))
    assert only(again, m.TransportInfo, m.TransportProven, ev.ConnectTransport) == []


def test_an_agent_that_fails_while_it_closes_is_not_closed_again():
    rig = prefiller()
    rig.hear(SCHEDULER, m.Exited(D.life))
    assert only(list(rig.transports), ev.CloseTransport)
    assert only(rig.do(ev.TransportFailed(D.name, D.epoch, "no more")), ev.CloseTransport, ev.OpenTransport) == []


def test_an_agent_is_opened_again_only_for_a_peer_that_is_still_there():
    rig = prefiller()
    rig.do(ev.TransportFailed(D.name, D.epoch, "a reason"))
    rig.transports.clear()
    rig.do(ev.TransportClosed(D.name, D.epoch))
    rig.down(D)
    assert only(rig.do(Wake(), 10.0), ev.OpenTransport) == []
    assert D.life not in rig.state.transports
    assert only(rig.up(D), ev.OpenTransport) == [ev.OpenTransport(D.name, D.epoch)]


def test_a_drain_that_is_asked_for_twice_is_told_once():
    rig = unified()
    assert len(messages(rig.do(ev.Drain()) + rig.do(ev.Drain()), m.Draining)) == 1


def test_a_decode_executor_dials_nobody():
    roster = m.Roster((P, D), True)
    assert only(decoder().hear(SCHEDULER, roster), ConnectLink) == []
    assert only(prefiller().hear(SCHEDULER, roster), ConnectLink) == [ConnectLink(D)]


def test_a_stop_of_one_choice_of_several_is_for_whoever_decodes_them():
    rig = prefiller()
    send_to(rig, 1, work(prompt(8), num_choices=2, max_tokens=4))
    assert only(rig.hear(ROUTER, m.Stop(AttemptId(1, 0), 1, 0)), m.Ended) == []
    assert AttemptId(1, 0) in rig.state.groups
    assert rig.hear(ROUTER, m.Stop(AttemptId(9, 0), 0, 0)) == []


def test_a_router_says_nothing_of_another_ones_requests():
    other = Peer("router2", Role.ROUTER, 1)
    rig = unified()
    rig.run(1, work(prompt(8)))
    rig.up(other)
    rig.hear(other, m.RouterInventory(()))
    assert AttemptId(1, 0) in rig.state.groups


def test_a_router_is_told_of_no_choice_that_the_attempt_does_not_have():
    rig = unified()
    rig.run(1, work(prompt(8), max_tokens=6))
    rig.step_done()
    named = ((AttemptId(1, 0), ((3, 0),)),)
    assert messages(rig.hear(ROUTER, m.RouterInventory(named)), m.Records) == []


def test_an_attempt_of_a_router_that_is_away_ends_with_its_silence():
    rig = unified()
    before = rig.books()
    rig.down(ROUTER)
    rig.run(1, work(prompt(8), max_tokens=200), left_ms=10_000_000)
    silence_s = rig.state.config.router_silence_s
    assert rig.core.next_wake <= rig.now + silence_s
    rig.do(Wake(), silence_s)
    rig.finish_steps()
    assert rig.books() == before


def test_what_nobody_wants_any_more_is_not_told_to_a_router_that_comes_back():
    rig = unified()
    rig.run(1, work(prompt(8), max_tokens=6))
    rig.run(2, work(prompt(8, 1), max_tokens=6))
    rig.step_done()
    rig.down(ROUTER)
    rig.step_done()
    rig.step_done()  # tokens of both are unsent
    rig.abort(1)
    told = [record.id.request_id for message in messages(rig.up(ROUTER), m.Records) for record in message.records]
    assert told == [2]


def test_a_router_of_whose_requests_none_is_wanted_any_more_is_told_nothing():
    rig = unified()
    rig.run(1, work(prompt(8), max_tokens=6))
    rig.down(ROUTER)
    rig.step_done()
    rig.abort(1)
    assert messages(rig.up(ROUTER), m.Records) == []


def test_a_session_that_is_lost_before_the_agent_is_open_is_introduced_once_it_is():
    rig = ExecutorRig(Role.PREFILL)
    rig.up(SCHEDULER, ROUTER, D)
    rig.down(D)
    assert messages(rig.up(D), m.TransportInfo) == []
    assert len(messages(rig.do(ev.TransportOpened(D.name, D.epoch, b"here", 0)), m.TransportInfo)) == 1


def test_an_attempt_that_is_placed_twice_fails_once_and_the_first_goes_on():
    rig = decoder()
    rig.decode(1, work(prompt(8)), P)
    assert the(rig.decode(1, work(prompt(8)), P), m.AttemptFailed).reason is Reason.INTERNAL
    assert AttemptId(1, 0) in rig.state.groups


def test_blocks_named_for_an_attempt_that_never_comes_are_given_back():
    rig = prefiller()
    rig.hear(D, m.Receive(7, AttemptId(1, 0), 0, packed([100, 101]), 1 << 20))
    assert rig.books()["receives_early"] == 1
    assert messages(rig.do(Wake(), EARLY_S / 2), m.TransferClosed) == []
    assert says("decode", m.TransferClosed, transfer_id=7, reason=Reason.PEER_LOST) in rig.do(Wake(), EARLY_S)
    assert rig.books()["receives_early"] == 0


def test_blocks_named_by_an_executor_whose_agent_is_gone_wait_for_their_attempt():
    rig = ExecutorRig(Role.PREFILL)
    rig.up(SCHEDULER, ROUTER)
    rig.hear(D, m.Receive(7, AttemptId(1, 0), 0, packed([100, 101]), 1 << 20))
    assert rig.books()["receives_early"] == 1


def test_a_transfer_that_is_given_up_twice_is_closed_once():
    rig = prefiller(token_budget=4, num_queued_steps=1)
    send_to(rig, 1, work(prompt(12)))
    rig.step_done()
    out = rig.hear(D, m.CloseTransfer(1)) + rig.hear(D, m.CloseTransfer(1))
    out += rig.land_pieces() + rig.finish_steps()
    assert len(messages(out, m.TransferClosed)) == 1
