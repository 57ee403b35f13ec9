"""Performance runs against what queueing theory and arithmetic say of the same system."""

import math
from random import Random

import pytest
from msgspec.structs import replace

from baton.core.sim.step_time.model import StepModel
from tests.support.fleets import asks, at_times, closed_loop, fleet, kind, run, ttft_s

SERVICE_S = 0.1


def poisson(rate: float, count: int, seed: int) -> list[float]:
    rng, now, times = Random(seed), 0.0, []
    for _ in range(count):
        now += rng.expovariate(rate)
        times.append(now)
    return times


def mean_wait_s(load: float, noise: float, count: int, seed: int) -> float:
    """Of single-token answers at one unified executor that takes one request at a time."""
    steps = StepModel(prefill=kind(noise, one=SERVICE_S), decode=kind(one=SERVICE_S))
    spec = fleet("1U", steps, num_slots=1)
    requests = asks(count, 20, 1)
    done = run(spec, requests, at_times(requests, poisson(load / SERVICE_S, count, seed)), seed)
    assert len(done.facts) == count
    return sum(ttft_s(row) for row in done.facts) / count - SERVICE_S


@pytest.mark.parametrize("load", [0.3, 0.7])
def test_the_mean_wait_of_equal_services_is_that_of_m_d_1(load: float) -> None:
    expected = load * SERVICE_S / (2 * (1 - load))
    assert mean_wait_s(load, 0.0, 5000, 5) == pytest.approx(expected, rel=0.08)


def test_the_mean_wait_of_noisy_services_is_that_of_m_g_1() -> None:
    load, noise = 0.6, 0.5
    second_moment = SERVICE_S**2 * math.exp(noise**2)
    expected = load / SERVICE_S * second_moment / (2 * (1 - load))
    assert mean_wait_s(load, noise, 5000, 11) == pytest.approx(expected, rel=0.1)


def throughput(prompt_s: float, decode_row_s: float, count: int = 600) -> float:
    """Requests per second of 1P1D with an endless queue: prompts one a step, 11 tokens out of which D decodes 10."""
    steps = StepModel(prefill=kind(one=prompt_s), decode=kind(decodes=decode_row_s))
    spec = fleet("1P1D", steps, token_budget=320, long_prefill_tokens=320, parked_tokens=3200)
    requests = asks(count, 320, 11)
    done = run(spec, requests, closed_loop(requests, 200))
    return count / done.length_s


def test_a_fleet_short_of_prefill_serves_at_the_rate_of_its_prefill() -> None:
    assert throughput(prompt_s=0.05, decode_row_s=0.001) == pytest.approx(1 / 0.05, rel=0.01)


def test_a_fleet_short_of_decode_serves_at_the_rate_of_its_decode() -> None:
    assert throughput(prompt_s=0.002, decode_row_s=0.002) == pytest.approx(1 / (10 * 0.002), rel=0.01)


def test_one_request_alone_takes_what_its_steps_and_its_transfer_take() -> None:
    steps = StepModel(prefill=kind(one=0.05, tokens=1e-4), decode=kind(one=0.01))
    spec = fleet("1P1D", steps)
    requests = asks(1, 1000, 5)
    facts = run(spec, requests, at_times(requests, [0.5])).facts[0]
    assert ttft_s(facts) == pytest.approx(0.05 + 0.1)
    assert facts.done_s == pytest.approx(0.5 + 0.15 + 4 * 0.01)
    assert [chunk.num_tokens for chunk in facts.chunks] == [1] * 5


def test_kv_takes_its_set_up_and_its_bytes() -> None:
    steps = StepModel(prefill=kind(one=0.05), decode=kind(one=0.01))
    spec = fleet("1P1D", steps)
    num_bytes = 1000 * spec.layout.token_bytes
    wires = type(spec.wires)(latency_s=0.0, kv_bytes_per_s=num_bytes / 0.2, kv_setup_s=0.03, poll_s=1.0)
    requests = asks(1, 1000, 2)
    done = run(fleet("1P1D", steps, wires=wires, window="fixed"), requests, at_times(requests, [0.0]))
    first, second = (chunk.time_s for chunk in done.facts[0].chunks)
    assert first == pytest.approx(0.05)
    assert second - first == pytest.approx(0.2 + 0.03 + 0.01)
    assert sum(use.kv_bytes for use in done.uses) == num_bytes


def test_h8_kv_that_a_step_tells_of_goes_while_it_computes_the_rest() -> None:
    """Half of four layers at half of the step, one more at three quarters, the last at its end: a quarter of the bytes
    is left to send then."""
    steps = StepModel(prefill=kind(one=0.4), decode=kind(one=0.01))
    plain = fleet("1P1D", steps, num_kv_layers=4, window="fixed")
    wires = type(plain.wires)(
        latency_s=0.0, kv_bytes_per_s=1000 * plain.layout.token_bytes / 0.2, kv_setup_s=0.03, poll_s=0.0
    )
    requests = asks(1, 1000, 2)
    gaps = []
    for tells in (False, True):
        spec = replace(plain, wires=wires, tells_progress=tells)
        (facts,) = run(spec, requests, at_times(requests, [0.0])).facts
        first, second = (chunk.time_s for chunk in facts.chunks)
        assert first == pytest.approx(0.4)
        gaps.append(second - first)
    assert gaps == pytest.approx([0.2 + 0.03 + 0.01, 0.05 + 0.03 + 0.01])
