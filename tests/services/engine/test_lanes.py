"""Two lanes of the CPU device at once: the numbers are those of each alone, on shared cores and on own ones."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from baton.core.executor.steps import MAIN_LANE, PREFILL_LANE, NewSequence, SampledToken, StepItem, StepPlan
from baton.core.wire.sampling import SamplingParams
from baton.services.executor.engine.load import load_device
from tests.services.engine.conftest import pack

BLOCK = 16
CORES = sorted(os.sched_getaffinity(0))
PROMPT = [(11 * i * i + 5 * i) % 97 for i in range(150)]
PARAMS = SamplingParams(max_tokens=60, temperature=0.8, seed=3, num_logprobs=0)


@pytest.fixture(params=["tiny", "llama"])
def folder(request: pytest.FixtureRequest, tiny_folder: Path, llama_folder: Path) -> Path:
    return tiny_folder if request.param == "tiny" else llama_folder


def step(device: Any, plan: StepPlan) -> list[SampledToken]:
    completion = device.create_completion(plan.lane)
    device.launch(plan)
    device.record(completion)
    device.wait(completion)
    result = device.collect(plan.step_id)
    logprobs = dict(result.logprobs)
    decoded = zip(plan.decodes, result.decoded, strict=True)
    found = [SampledToken(0, token, logprobs[seq_id]) for seq_id, token in decoded]
    return found + [token for item in result.items for token in item.sampled]


def decode(device: Any, lane: int) -> list[SampledToken]:
    """A prompt of 5 tokens and 29 decode steps."""
    new = NewSequence(1, pack(PROMPT[:5]), 5, PARAMS, 0)
    found = step(device, StepPlan(1, (), (new,), (), (StepItem(1, 0, 5, 1, pack(range(4))),), lane=lane))
    for start in range(5, 34):
        found += step(device, StepPlan(2 * start, (), (), (), (), (1,), (), start + 1, lane=lane))
    return found


def prefill(device: Any, lane: int) -> list[SampledToken]:
    """Three prompts, one after the other, each in two chunks, in blocks of its own."""
    found = []
    for number in range(2, 5):
        new = NewSequence(number, pack(PROMPT), len(PROMPT), PARAMS, 0)
        first = StepItem(number, 0, 70, 0, pack(range(10 * number, 10 * number + 10)))
        rest = StepItem(number, 70, 80, 1, b"")
        gone = (number - 1,) if number > 2 else ()
        step(device, StepPlan(1001 + 4 * number, (), (new,), (), (first,), lane=lane))
        found += step(device, StepPlan(1003 + 4 * number, gone, (), (), (rest,), lane=lane))
    return found


def in_lane(device: Any, lane: int, work: Callable[[Any, int], list[SampledToken]]) -> list[SampledToken]:
    device.enter_lane(lane)
    return work(device, lane)


def is_same(left: list[SampledToken], right: list[SampledToken]) -> bool:
    """Tokens equal; log-probabilities equal, or (torch's float64 sums on other numbers of threads) to a billionth."""
    return [token.token for token in left] == [token.token for token in right] and all(
        a.logprobs is not None and b.logprobs is not None and abs(a.logprobs.logprob - b.logprobs.logprob) < 1e-9
        for a, b in zip(left, right, strict=True)
    )


@pytest.mark.parametrize(
    "lane_cores",
    [(CORES, CORES), (CORES[:1], CORES[-1:])],
    ids=["shared", "partitioned"],
)
def test_x8_o8_two_lanes_at_once_give_the_numbers_of_each_alone(folder: Path, lane_cores: Any) -> None:
    def load() -> Any:
        return load_device("cpu", folder, num_blocks=50, block_size=BLOCK, num_threads=len(CORES))

    alone = decode(load(), MAIN_LANE), prefill(load(), MAIN_LANE)
    device = load()
    device.use_lanes([frozenset(cores) for cores in lane_cores])
    with ThreadPoolExecutor(2) as threads:
        both = (
            threads.submit(in_lane, device, MAIN_LANE, decode),
            threads.submit(in_lane, device, PREFILL_LANE, prefill),
        )
        together = [future.result(timeout=120) for future in both]
    assert is_same(together[0], alone[0])
    assert is_same(together[1], alone[1])


def test_o8_a_lanes_thread_has_its_cores_and_the_others_keep_theirs(tiny_folder: Path) -> None:
    device = load_device("cpu", tiny_folder, num_blocks=4, block_size=BLOCK, num_threads=len(CORES))
    device.use_lanes([frozenset(CORES[:1]), frozenset(CORES[-1:])])

    def cores_in(lane: int) -> set[int]:
        device.enter_lane(lane)
        return os.sched_getaffinity(0)

    with ThreadPoolExecutor(1) as first, ThreadPoolExecutor(1) as second:
        assert first.submit(cores_in, MAIN_LANE).result() == {CORES[0]}
        assert second.submit(cores_in, PREFILL_LANE).result() == {CORES[-1]}
    assert os.sched_getaffinity(0) == set(CORES)
