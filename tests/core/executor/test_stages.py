"""H10: how long attempts stay between their stages, counted on both ends for `/metrics`."""

from __future__ import annotations

from baton.core.executor.events import PieceLanded
from baton.core.ids import AttemptId
from baton.core.wire import messages as m
from tests.support.machines import D, P, decoder, prefiller, prompt, sampled, send_to, unified, work


def seen(rig, name: str) -> tuple[int, float]:
    """How many values, and their sum to a millisecond."""
    histogram = rig.state.histograms[name]
    return histogram.num, round(histogram.sum, 3)


def land(rig, number: int, token: int = 7):
    rig.hear(P, m.ChunkPosted(number, 0, 512))
    rig.hear(P, m.ChunkLanded(number, 0))
    return rig.hear(P, m.Sealed(number, 1, sampled(token)))


def test_h10_the_writing_end_counts_computed_to_commit_and_landed_and_the_last_post():
    rig = prefiller(token_budget=8)
    send_to(rig, 1, work(prompt(8, 1)))
    rig.now += 1.0
    rig.step_done()
    first, last = rig.pieces.popleft(), rig.pieces.popleft()
    rig.do(PieceLanded(first.piece_id, 0.01, rig.now + 0.1), 0.5)
    assert seen(rig, "computed_to_landed_seconds") == (0, 0.0)
    rig.do(PieceLanded(last.piece_id, 0.2, rig.now + 0.1), 0.5)
    assert seen(rig, "computed_to_commit_seconds") == (1, 0.6)
    assert seen(rig, "computed_to_landed_seconds") == (1, 1.0)
    assert seen(rig, "last_post_seconds") == (1, 0.2)
    assert seen(rig, "admitted_to_first_token_seconds") == (1, 1.0)


def test_h13_the_commit_is_the_call_of_the_last_post_however_reports_are_ordered():
    rig = prefiller(token_budget=8)
    send_to(rig, 1, work(prompt(8, 1)))
    rig.step_done()
    first, last = rig.pieces.popleft(), rig.pieces.popleft()
    rig.do(PieceLanded(last.piece_id, 0.3, rig.now + 0.2), 1.0)
    rig.do(PieceLanded(first.piece_id, 0.1, rig.now - 0.9))
    assert seen(rig, "computed_to_commit_seconds") == (1, 0.2)
    assert seen(rig, "last_post_seconds") == (1, 0.3)


def test_h10_an_attempt_whose_transfer_failed_counts_in_none_of_these():
    rig = prefiller(token_budget=8)
    send_to(rig, 1, work(prompt(8, 1)))
    rig.step_done()
    rig.abort(1)
    rig.land_pieces()
    assert seen(rig, "computed_to_landed_seconds") == (0, 0.0)


def test_h10_a_prompt_that_lies_there_already_has_no_commit():
    rig = prefiller(token_budget=8)
    asked = work(prompt(8, 1))
    rig.hear(D, m.Receive(1, AttemptId(1, 0), 2, b"", 1 << 40))
    rig.prefill(1, asked)
    rig.step_done()
    assert rig.core.quiescent()
    assert seen(rig, "computed_to_commit_seconds") == (0, 0.0)


def test_h10_the_receiving_end_counts_landed_to_scheduled_in_seconds_and_steps():
    rig = decoder(num_queued_steps=1, join_max_steps=4)
    rig.decode(1, work(prompt(8, 1)), P)
    land(rig, 1)
    assert seen(rig, "landed_to_scheduled_steps") == (1, 0.0)  # the very next step
    rig.decode(2, work(prompt(8, 2)), P)
    land(rig, 2)  # the first one's step is with the device
    rig.now += 0.05
    rig.step_done()
    assert seen(rig, "landed_to_scheduled_seconds") == (2, 0.05)
    assert seen(rig, "landed_to_scheduled_steps") == (2, 0.0)


def test_h10_whoever_computes_the_prompt_counts_its_time_to_the_first_token():
    rig = unified()
    rig.run(1, work(prompt(8, 1)))
    rig.now += 0.25
    rig.step_done()
    assert seen(rig, "admitted_to_first_token_seconds") == (1, 0.25)
