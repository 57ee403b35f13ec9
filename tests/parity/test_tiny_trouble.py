"""X8, G8: answers that were interrupted, by preemption or by the death of their executor, are exact all the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.parity.conftest import ALONE, CPU, PAIR
from tests.parity.interrupt import kill_in_mid_answer
from tests.parity.live import LiveStack
from tests.parity.tiny import check_exact, questions
from tests.support.reference import Reference

SMALL_POOL = (*CPU, "--num-blocks", "20", "--growth-reserve", "16")
LENGTHS = (1, 15, 16, 17, 31, 32, 33, 40, 47, 48, 49, 63)


@pytest.mark.parametrize("names", [PAIR, ALONE], ids=["pair", "alone"])
def test_x8_g8_preempted_sequences_are_exact(
    names: tuple[str, ...], tmp_path: Path, tiny: Path, tiny_reference: Reference
) -> None:
    running = names[-2]
    live = LiveStack(tmp_path, tiny, names, {"prefill": CPU, running: SMALL_POOL})
    try:
        asked = [question._replace(max_tokens=100) for question in questions(LENGTHS, 6)]
        answers = live.ask(*asked)
        assert live.gauges(running)["preempted_total"] > 0
        for question, answer in zip(asked, answers, strict=True):
            check_exact(tiny_reference, question, answer)
    finally:
        live.close()


def test_x8_g8_answers_go_on_without_gap_or_repeat_when_their_decode_executor_is_killed(
    tmp_path: Path, tiny: Path, tiny_reference: Reference
) -> None:
    names = ("scheduler", "prefill", "decode1", "decode2", "router")
    live = LiveStack(tmp_path, tiny, names, {"prefill": CPU, "decode": CPU})
    try:
        asked = [question._replace(max_tokens=150) for question in questions((1, 17, 33, 64, 65, 100), 7)]
        answers = live.run(kill_in_mid_answer(live, ("decode1", "decode2"), asked))
        assert live.gauges("router")["attempts_failed_peer_lost_total"] > 0
        for question, answer in zip(asked, answers, strict=True):
            check_exact(tiny_reference, question, answer)
    finally:
        live.close()
