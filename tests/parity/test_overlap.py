"""X8 and O8: prompts beside decodes, on the same cores and on their own: every token is the float64 reference's."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.parity.conftest import ALONE, CPU
from tests.parity.live import LiveStack
from tests.parity.tiny import check_drawn, check_exact, questions
from tests.support.reference import Reference

MODES = {
    mode: (*CPU, "--step-mode", "overlap", "--overlap", mode) for mode in ("shared", "partitioned")
}
SMALL_POOL = ("--num-blocks", "20", "--growth-reserve", "16")
#: around blocks of 16 and steps of 64 tokens; the long ones are computed while the others decode
LENGTHS = (1, 15, 16, 17, 63, 64, 65, 130, 250, 300)


@pytest.fixture(scope="module", params=MODES)
def overlapping(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, tiny: Path
) -> Iterator[LiveStack]:
    stack = LiveStack(tmp_path_factory.mktemp("overlap"), tiny, ALONE, {"unified": MODES[request.param]})
    yield stack
    stack.close()


def test_x8_o8_together_and_warm_every_token_is_exact(overlapping: LiveStack, tiny_reference: Reference) -> None:
    asked = [question._replace(max_tokens=24) for question in questions(LENGTHS, 21)]
    cold = overlapping.ask(*asked)
    warm = [overlapping.ask(question)[0] for question in asked]
    for question, first, again in zip(asked, cold, warm, strict=True):
        check_exact(tiny_reference, question, first)
        assert (again.tokens, again.logprobs) == (first.tokens, first.logprobs)
    gauges = overlapping.gauges("unified")
    assert gauges["decode_steps_done_total"] > 0
    assert gauges["prefill_steps_done_total"] > 0
    assert gauges.get("mixed_steps_done_total", 0) == 0
    assert gauges["device_steps_launched_total"] == gauges["device_steps_proven_total"]


def test_x8_o8_and_g7_choices_of_one_prompt_are_the_keyed_draws(
    overlapping: LiveStack, tiny_reference: Reference
) -> None:
    asked = [
        question._replace(temperature=0.9, top_p=0.95, seed=50 + length, num_choices=3)
        for length, question in zip((17, 64, 100), questions((17, 64, 100), 22), strict=True)
    ]
    for question, answer in zip(asked, overlapping.ask(*asked), strict=True):
        check_drawn(tiny_reference, question, answer)
        assert answer.finishes == (["length"],) * 3


@pytest.mark.parametrize("mode", MODES)
def test_x8_o8_and_g8_preempted_sequences_are_exact(
    mode: str, tmp_path: Path, tiny: Path, tiny_reference: Reference
) -> None:
    live = LiveStack(tmp_path, tiny, ALONE, {"unified": (*MODES[mode], *SMALL_POOL)})
    try:
        asked = [question._replace(max_tokens=100) for question in questions((1, 15, 17, 32, 33, 47, 63, 40), 23)]
        answers = live.ask(*asked)
        assert live.gauges("unified")["preempted_total"] > 0
        for question, answer in zip(asked, answers, strict=True):
            check_exact(tiny_reference, question, answer)
    finally:
        live.close()
