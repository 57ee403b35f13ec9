"""P as properties: whatever comes in whatever order, each wait is accounted for; and books that are wrong are found."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from baton.core.errors import InvariantViolated
from baton.core.events import Span
from baton.core.ids import AttemptId, Role
from baton.core.kv.ready_queue import ReadyQueue
from baton.core.wire import messages as m
from tests.support.expect import messages, only
from tests.support.machines import ROUTER, an_executor, prompt, work
from tests.support.scheduling import SchedulerRig, unified_of

FAMILIES = [prompt(40, 48), [*prompt(12, 48), *prompt(28, 47)]]
MAX_MS = 700.0


class Playing:
    """Two executors that compute what they are given in order, publish it, end it, fail, go and come back."""

    def __init__(self, rig: SchedulerRig) -> None:
        self.rig = rig
        self.peers = {f"u{i}": an_executor(f"u{i}", Role.UNIFIED, num_blocks=60, token_budget=32) for i in (1, 2)}
        self.held: dict[str, dict[AttemptId, m.Run]] = {name: {} for name in self.peers}
        self.index: dict[str, set[bytes]] = {name: set() for name in self.peers}
        self.num_placed = 0
        rig.up(ROUTER)
        for peer in self.peers.values():
            rig.join(peer)

    def watch(self, out: list) -> None:
        for send in only(out, m.Run):
            self.held[send.peer][send.message.id] = send.message
            self.num_placed += 1

    def ask(self, number: int, family: int, num_shared: int, num_own: int, **fields) -> None:
        tokens = [*FAMILIES[family][:num_shared], *prompt(num_own, number)]
        self.watch(self.rig.submit(number, work(tokens, 4), after_s=0.01, **fields))

    def publish(self, name: str, num_blocks: int) -> None:
        """Of the oldest, up to so many blocks."""
        if not self.held[name]:
            return
        run = next(iter(self.held[name].values()))
        hashes = [run.work.hashes[i : i + 16] for i in range(0, min(16 * num_blocks, len(run.work.hashes)), 16)]
        fresh = [block_hash for block_hash in hashes if block_hash not in self.index[name]]
        self.index[name].update(fresh)
        if fresh:
            self.watch(self.rig.hear(self.peers[name], m.CacheChanged(b"".join(fresh), b"")))

    def end(self, name: str) -> None:
        """The oldest ends, wherever it stands."""
        if self.held[name]:
            work_id, run = next(iter(self.held[name].items()))
            del self.held[name][work_id]
            self.watch(self.rig.hear(self.peers[name], m.Ended(work_id)))
            credit = m.Credit(run.num_blocks, 1, run.work.num_tokens - run.num_cached)
            self.watch(self.rig.hear(self.peers[name], credit))

    def go(self, name: str) -> None:
        """It is another life at once."""
        self.watch(self.rig.down(self.peers[name]))
        self.peers[name] = replace(self.peers[name], epoch=self.peers[name].epoch + 1)
        self.held[name], self.index[name] = {}, set()
        self.watch(self.rig.join(self.peers[name]))

    def abort(self, number: int) -> None:
        self.watch(self.rig.hear(ROUTER, m.Abort(AttemptId(number, 0))))


@given(st.data())
def test_p13_every_wait_is_begun_and_ended_once_in_time_whatever_happens(data):
    rig = SchedulerRig(prefix_wait_max_ms=MAX_MS, steps_ahead=data.draw(st.sampled_from([1.0, 4.0, 100.0])))
    play = Playing(rig)
    pick, chance = st.sampled_from(["u1", "u2"]), st.integers(0, 9)
    for number in range(1, data.draw(st.integers(2, 25)) + 1):
        shared = data.draw(st.sampled_from([0, 12, 30, 40]))
        waited_ms = data.draw(st.sampled_from([0, 0, 300, 700]))
        play.ask(number, data.draw(st.integers(0, 1)), shared, data.draw(st.integers(1, 6)), waited_ms=waited_ms)
        action = data.draw(chance)
        if action < 4:
            play.publish(data.draw(pick), data.draw(st.integers(1, 12)))
        elif action < 6:
            play.end(data.draw(pick))
        elif action == 6:
            play.go(data.draw(pick))
        elif action == 7:
            play.abort(data.draw(st.integers(1, number)))
        else:
            play.watch(rig.wake(data.draw(st.sampled_from([0.05, 0.4]))))
    for _ in range(200):
        for name in play.peers:
            play.end(name)
    assert rig.core.quiescent()
    gauges = rig.core.gauges()
    ended = sum(gauges.get(f"prefix_waits_{how}_total", 0) for how in ("served", "lost", "given_up", "left"))
    assert gauges.get("wait_prefix_wait_total", 0) == ended
    assert (gauges["prefix_waiting"], len(rig.core._prefixes.producers)) == (0, 0)
    spans = [span for _, _, out in rig.turns for span in only(out, Span) if span.what == "prefix wait"]
    waited: dict[int, float] = {}
    for span in spans:
        waited[span.request_id] = waited.get(span.request_id, 0.0) + span.ended_at - span.since
        assert span.ended_at <= max(span.until, span.since) + 0.4  # the test's own clock goes in steps as long as that
    told = {run.id.request_id: run.waited_ms for _, _, out in rig.turns for run in messages(out, m.Run)}
    assert all(told[number] >= int(waited_s * 1000) for number, waited_s in waited.items() if number in told)


# ---- X1: the books can fail


def one_waits() -> tuple[SchedulerRig, object]:
    rig = SchedulerRig()
    unified_of(rig, num_blocks=512)
    for number in (1, 2):
        rig.submit(number, work([*FAMILIES[0], number], 4))
    assert rig.core.gauges()["prefix_waiting"] == 1
    return rig, rig.core._arrivals.find(AttemptId(2, 0))


def test_x1_somebody_who_waits_and_hangs_nowhere_is_found():
    rig, _ = one_waits()
    rig.core._prefixes._on_hash.clear()
    with pytest.raises(InvariantViolated, match="set aside"):
        rig.core.check_invariants()


def test_x1_somebody_who_waits_for_a_block_that_nobody_computes_is_found():
    rig, _ = one_waits()
    rig.core._prefixes.producers.end(AttemptId(1, 0))
    with pytest.raises(InvariantViolated, match="nobody computes"):
        rig.core.check_invariants()


def test_x1_somebody_who_waits_beyond_its_deadline_is_found():
    rig, waiting = one_waits()
    with pytest.raises(InvariantViolated, match="deadline"):
        rig.core._prefixes.check_invariants(waiting.patience.until)


def test_x1_an_attempt_that_ended_and_still_counts_as_computing_is_found():
    rig, _ = one_waits()
    placed = rig.core._placed.get(AttemptId(1, 0))
    rig.core._placed.end_at(placed.id, placed.prefill)
    with pytest.raises(InvariantViolated, match="ended"):
        rig.core.check_invariants()


def test_x1_a_block_of_an_attempt_that_is_not_known_is_found():
    rig, _ = one_waits()
    rig.core._prefixes.producers._by_attempt.clear()
    with pytest.raises(InvariantViolated, match="who compute"):
        rig.core.check_invariants()


def test_x1_somebody_in_line_and_set_aside_is_found():
    rig, waiting = one_waits()
    rig.core._arrivals.ready.push(waiting.handle, *waiting.key[:3], 0, 0)
    with pytest.raises(RuntimeError, match="each once"):
        rig.core._arrivals.check_invariants()


def test_x1_nobody_is_brought_back_who_does_not_wait():
    rig, waiting = one_waits()
    waiting.bucket = ReadyQueue()
    with pytest.raises(RuntimeError, match="not set aside"):
        rig.core._arrivals.bring_back(waiting)
    _, other = one_waits()
    other.patience = None
    with pytest.raises(InvariantViolated, match="without a deadline"):
        rig.core._prefixes._bring_back(other, "served", rig.now)
