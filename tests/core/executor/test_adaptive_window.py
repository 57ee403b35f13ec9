"""W1: the window of a pair follows its bandwidth and its latency, from what its pieces show."""

from __future__ import annotations

from collections import deque

import pytest
from hypothesis import given
from hypothesis import strategies as st

from baton.core.config import ExecutorConfig
from baton.core.events import Several
from baton.core.executor.bandwidth import GAIN, NUM_LATENCIES, NUM_RATES, PROBE_AFTER, PairWindow
from baton.core.executor.events import PieceFailed, PieceLanded, Post
from baton.core.ids import AttemptId
from baton.core.wire import messages as m
from tests.support.expect import only
from tests.support.machines import D2, D, packed, prefiller, prompt, send_to, work

PIECE = 1000
BLOCK_BYTES = 256


class Pipe:
    """A pair whose pieces take `latency_s` and the bytes' time, one after another; its sender always has more."""

    def __init__(self, bytes_per_s: float, latency_s: float, most: int = 1 << 40) -> None:
        self.window = PairWindow(PIECE)
        self.bytes_per_s = bytes_per_s
        self.latency_s = latency_s
        self.most = most
        self.now = 0.0
        self.free_at = 0.0
        self.flights: deque = deque()
        self.in_flight = 0
        self.largest = 0

    def run(self, num_pieces: int) -> PairWindow:
        for _ in range(num_pieces):
            self._send()
            flight, self.now = self.flights.popleft()
            self.in_flight -= PIECE
            self.window.landed(flight, self.now)
        return self.window

    def _send(self) -> None:
        while not self.in_flight or (
            self.in_flight + PIECE <= min(self.most, self.window.num_bytes) and not self.window.is_probing
        ):
            flight = self.window.sent(PIECE, self.now, self.in_flight == 0)
            self.free_at = max(self.free_at, self.now) + PIECE / self.bytes_per_s
            self.flights.append((flight, self.free_at + self.latency_s))
            self.in_flight += PIECE
            self.largest = max(self.largest, self.in_flight)


def test_w1_an_unmeasured_pair_begins_with_one_piece():
    assert PairWindow(PIECE).num_bytes == PIECE
    assert PairWindow(PIECE).bytes_per_s == 0
    assert PairWindow(PIECE).overhead_s == 0


@pytest.mark.parametrize(("bytes_per_s", "latency_s"), [(1e6, 0.05), (1e6, 0.001), (4e4, 0.2), (1e8, 1e-4)])
def test_w1_the_window_becomes_twice_the_bandwidth_times_the_latency(bytes_per_s, latency_s):
    pipe = Pipe(bytes_per_s, latency_s)
    window = pipe.run(2000)
    alone_s = latency_s + PIECE / bytes_per_s
    assert window.bytes_per_s == pytest.approx(bytes_per_s, rel=0.05)
    assert window.num_bytes == pytest.approx(max(PIECE, GAIN * bytes_per_s * alone_s), rel=0.05)
    assert window.overhead_s == pytest.approx(latency_s, rel=0.1, abs=PIECE / bytes_per_s / 10)


def test_w1_the_pipe_is_full_after_a_few_round_trips():
    pipe = Pipe(1e6, 0.05)  # 50 pieces are under way when it is full
    pipe.run(200)
    assert pipe.now < 200 * PIECE / 1e6 + 8 * 0.051


@given(st.floats(1e4, 1e9), st.floats(1e-5, 0.3), st.integers(1, 3000))
def test_w1_a_sender_that_never_rests_does_not_widen_its_own_window(bytes_per_s, latency_s, num_pieces):
    """The queue that a window makes is not taken for latency, however long that lasts."""
    pipe = Pipe(bytes_per_s, latency_s)
    pipe.run(num_pieces)
    assert pipe.largest <= max(PIECE, 1.01 * GAIN * bytes_per_s * (latency_s + PIECE / bytes_per_s))


def test_w1_a_slower_pair_gets_a_smaller_window_and_a_longer_way_a_larger_one_while_the_sender_never_rests():
    pipe = Pipe(1e6, 0.01)
    pipe.run(1000)
    pipe.bytes_per_s = 1e5
    assert pipe.run(1000).num_bytes == pytest.approx(GAIN * 1e5 * 0.02, rel=0.2)
    pipe.latency_s = 0.1
    assert pipe.run(5000).num_bytes == pytest.approx(GAIN * 1e5 * 0.11, rel=0.1)


def test_w1_one_late_landing_is_no_latency():
    window = PairWindow(PIECE)
    for lasted_s in (0.01, 0.01, 0.01, 5.0, 0.01):
        window.landed(window.sent(PIECE, 0.0, True), lasted_s)
    assert window.num_bytes == GAIN * PIECE


def test_w1_the_estimator_remembers_a_fixed_number_of_pieces():
    pipe = Pipe(1e6, 0.01)
    window = pipe.run(5 * PROBE_AFTER)
    assert len(window._rates) <= NUM_RATES
    assert len(window._lone) <= NUM_LATENCIES


def test_w1_pieces_that_land_in_the_turn_of_their_sending_measure_nothing():
    window = PairWindow(PIECE)
    window.landed(window.sent(PIECE, 1.0, True), 1.0)
    assert (window.num_bytes, window.bytes_per_s) == (PIECE, 0)


def test_w1_a_window_is_adaptive_or_fixed():
    with pytest.raises(ValueError, match="window = 'wide' is none of adaptive, fixed"):
        ExecutorConfig(window="wide").validate()


def test_w1_posts_grow_with_what_landed_and_never_beyond_the_bounds():
    rig = prefiller(piece_bytes=BLOCK_BYTES, window_bytes=4 * BLOCK_BYTES)
    send_to(rig, 1, work(prompt(64, 1)))
    rig.step_done()
    assert len(rig.pieces) == 1
    in_flight = []
    while rig.pieces:
        in_flight.append(len(rig.pieces))
        rig.now += 0.01
        rig.do(Several(tuple(PieceLanded(rig.pieces.popleft().piece_id) for _ in range(in_flight[-1]))))
    assert in_flight == [1, 2, 4, 4, 4, 1]
    assert rig.core.quiescent()


def test_w1_a_piece_that_failed_measures_nothing():
    rig = prefiller(piece_bytes=BLOCK_BYTES)
    send_to(rig, 1, work(prompt(64, 1)))
    rig.step_done()
    rig.do(PieceFailed(rig.pieces.popleft().piece_id), 0.01)
    assert rig.state.transfer_pace.bytes_per_s == 0


def test_w1_the_pace_of_transfers_is_measured_from_pieces():
    rig = prefiller(piece_bytes=BLOCK_BYTES)
    send_to(rig, 1, work(prompt(64, 1)))
    rig.step_done()
    while rig.pieces:
        rig.do(PieceLanded(rig.pieces.popleft().piece_id), 0.01)
    assert rig.state.transfer_pace.bytes_per_s == pytest.approx(BLOCK_BYTES / 0.01)
    assert rig.state.transfer_pace.us < 1


def test_w1_a_window_that_is_measured_tightly_lets_the_pair_run_empty_once_in_a_while():
    rig = prefiller(piece_bytes=BLOCK_BYTES, num_blocks=2000, token_budget=8000, long_prefill_tokens=8000)
    rig.is_checked = False
    send_to(rig, 1, work(prompt(4000, 1)))
    rig.step_done()
    empty = 0
    while rig.pieces:
        rig.now += 0.01
        piece = rig.pieces.popleft()
        was_last = not rig.pieces
        rig.do(PieceLanded(piece.piece_id))
        empty += was_last and bool(rig.pieces)
    assert 1 < empty < 40  # of a thousand pieces


def test_w5_a_request_larger_than_the_measured_window_makes_progress_under_endless_small_traffic():
    """The small ones come later, so they go later, however narrow the pair was measured to be."""
    rig = prefiller(piece_bytes=BLOCK_BYTES)
    send_to(rig, 1, work(prompt(64, 1)))
    rig.step_done()
    for number in range(2, 40):
        send_to(rig, number, work(prompt(4, number)))
        rig.finish_steps()
        rig.do(PieceLanded(rig.pieces.popleft().piece_id), 1.0)
        if AttemptId(1, 0) not in rig.state.groups:
            break
    assert number <= 20  # 16 pieces


@given(st.data())
def test_h4_and_w1_adaptive_windows_keep_every_bound_in_every_state(data):
    """One piece may always go; what was posted stays within both ends' bounds and the total; all comes back (W7)."""
    window, theirs = data.draw(st.integers(1, 6)) * 128, data.draw(st.integers(1, 6)) * 128
    total = data.draw(st.integers(1, 8)) * 128
    piece = data.draw(st.sampled_from([16, 64, 128]))
    rig = prefiller(D, D2, window_bytes=window, total_window_bytes=total, piece_bytes=piece)

    def sizes(name: str) -> list[int]:
        return [
            (p.end_plane - p.first_plane) * (p.end_slot - p.first_slot) * 16 for p in rig.pieces if p.peer == name
        ]

    def act(out: list) -> None:
        if not only(out, Post):
            return
        for peer in (D, D2):
            mine = sizes(peer.name)
            bound = max(piece, rig.state.transports[peer.life].window.num_bytes)
            assert len(mine) <= 1 or sum(mine) <= min(window, theirs)
            posted = [p for post in only(out, Post) for p in post.pieces if p.peer == peer.name]
            assert not posted or len(mine) == 1 or sum(mine) <= bound
        both = sizes("decode") + sizes("decode2")
        assert len(both) <= 1 or sum(both) <= total

    for number in range(1, data.draw(st.integers(1, 4)) + 1):
        asked = work(prompt(data.draw(st.integers(1, 24)), number))
        to = data.draw(st.sampled_from([D, D2]))
        blocks = packed(range(100, 100 + rig.layout.blocks_for(asked.num_tokens)))
        act(rig.hear(to, m.Receive(number, AttemptId(number, 0), 0, blocks, theirs)))
        act(rig.prefill(number, asked))
    while rig.steps or rig.pieces:
        rig.now += data.draw(st.sampled_from([0.0, 0.001, 0.5]))
        match data.draw(st.sampled_from(["step"] * bool(rig.steps) + ["landed", "failed", "abort"] * bool(rig.pieces))):
            case "step":
                act(rig.step_done())
            case "landed":
                index = data.draw(st.integers(0, len(rig.pieces) - 1))
                rig.pieces.rotate(-index)
                act(rig.piece_landed())
            case "failed":
                act(rig.do(PieceFailed(rig.pieces.popleft().piece_id)))
            case "abort":
                act(rig.abort(data.draw(st.integers(1, 4))))
    assert rig.core.quiescent()
    assert rig.books()["transfer_bytes_in_flight"] == 0
    assert rig.books()["blocks_free"] == 64
