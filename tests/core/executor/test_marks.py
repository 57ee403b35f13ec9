"""The stages of each attempt: exact moments, one closing note on each executor."""

from __future__ import annotations

from baton.core.events import Note
from baton.core.executor.events import PieceLanded
from baton.core.wire import messages as m
from tests.support.machines import P, decoder, prefiller, prompt, sampled, send_to, work


def closing(out: list[object], what: str) -> dict[str, float]:
    (note,) = [c for c in out if isinstance(c, Note) and c.what == what]
    return note.numbers


def test_h10_and_h13_a_prefill_executor_marks_every_stage_when_it_happens():
    rig = prefiller(token_budget=8)
    send_to(rig, 1, work(prompt(8, 1)))
    rig.now += 1.0
    rig.step_done()
    first, last = rig.pieces.popleft(), rig.pieces.popleft()
    rig.do(PieceLanded(first.piece_id, 0.01, rig.now + 0.2), 0.5)
    numbers = closing(rig.do(PieceLanded(last.piece_id, 0.3, rig.now + 0.1), 0.5), "prefill ended")
    assert {name: round(value) for name, value in numbers.items() if name.endswith("_ms")} == {
        "launched_ms": 0,
        "computed_ms": 1000,
        "first_token_ms": 1000,
        "first_chunk_ms": 1000,
        "commit_ms": 1600,  # the call of the last post, not its end
        "post_ms": 300,
        "landed_ms": 2000,
    }


def test_h8_the_share_of_bytes_sent_before_the_prompt_was_computed_is_told():
    rig = prefiller(token_budget=8)
    send_to(rig, 1, work(prompt(16, 1)))
    rig.step_done()  # the first half is computed: its two blocks of four go at once
    rig.land_pieces()
    rig.step_done()
    numbers = closing(rig.land_pieces(), "prefill ended")
    assert numbers["early_share"] == 0.5
    assert rig.core.gauges()["kv_bytes_posted_early_total"] * 2 == rig.core.gauges()["kv_bytes_posted_total"]


def test_h10_a_decode_executor_marks_landing_activation_and_tokens():
    rig = decoder()
    rig.decode(1, work(prompt(8, 1), max_tokens=2), P)
    rig.hear(P, m.ChunkPosted(1, 0, 512), 1.0)
    rig.hear(P, m.Sealed(1, 1, sampled(7)), 1.0)
    rig.hear(P, m.ChunkLanded(1, 0), 1.0)
    rig.now += 1.0
    numbers = closing(rig.step_done(), "decode ended")
    assert {name: round(value) for name, value in numbers.items() if name.endswith("_ms")} == {
        "first_chunk_ms": 1000,
        "landed_ms": 3000,
        "activated_ms": 3000,
        "launched_ms": 3000,
        "first_token_ms": 3000,
        "last_token_ms": 4000,
    }
