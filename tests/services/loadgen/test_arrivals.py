"""When requests are due: rates in the long run, the spread of gaps, and that nothing drifts."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from baton.services.loadgen.arrivals import ArrivalKind, Arrivals, due_times
from baton.services.loadgen.draws import Purpose, generator

OPEN_KINDS = [ArrivalKind.CONSTANT, ArrivalKind.POISSON, ArrivalKind.GAMMA, ArrivalKind.BURST]


def times_of(
    kind: ArrivalKind, *, count: int = 0, duration_s: float = 0.0, seed: int = 1, **options: float
) -> np.ndarray:
    arrivals = Arrivals(kind=kind, **options)  # type: ignore[arg-type]
    return due_times(arrivals, generator(seed, Purpose.ARRIVALS), count=count, duration_s=duration_s)


def test_a_constant_rate_is_due_at_exact_multiples_however_many() -> None:
    times = times_of(ArrivalKind.CONSTANT, count=10_000, rate=7.0)
    assert times.tolist() == [number / 7.0 for number in range(10_000)]


@pytest.mark.parametrize("burstiness", [0.25, 1.0, 4.0])
def test_gamma_gaps_have_the_mean_of_the_rate_and_the_spread_of_the_burstiness(burstiness: float) -> None:
    gaps = np.diff(times_of(ArrivalKind.GAMMA, count=100_000, rate=20.0, burstiness=burstiness))
    assert gaps.mean() == pytest.approx(1 / 20, rel=0.02)
    assert gaps.std() / gaps.mean() == pytest.approx(burstiness**-0.5, rel=0.02)


def test_poisson_arrivals_are_as_many_in_a_second_as_their_variance() -> None:
    times = times_of(ArrivalKind.POISSON, duration_s=5_000.0, rate=10.0)
    in_a_second = np.bincount(times.astype(int), minlength=5_000)
    assert in_a_second.mean() == pytest.approx(10, rel=0.02)
    assert in_a_second.var() == pytest.approx(10, rel=0.06)


def test_gamma_of_burstiness_one_is_poisson() -> None:
    assert np.array_equal(
        times_of(ArrivalKind.GAMMA, count=5_000, rate=3.0, burstiness=1.0),
        times_of(ArrivalKind.POISSON, count=5_000, rate=3.0),
    )


def test_bursts_come_whole_and_in_time() -> None:
    times = times_of(ArrivalKind.BURST, count=7, burst_size=3, burst_every_s=2.5)
    assert times.tolist() == [0, 0, 0, 2.5, 2.5, 2.5, 5]


@given(st.sampled_from(OPEN_KINDS), st.integers(0, 9_000), st.floats(0, 40), st.floats(0.5, 300), st.integers(0, 2**62))
def test_times_ascend_within_both_limits(
    kind: ArrivalKind, count: int, duration_s: float, rate: float, seed: int
) -> None:
    if not count and not duration_s:
        count = 1
    times = times_of(kind, count=count, duration_s=duration_s, seed=seed, rate=rate)
    assert np.all(np.diff(times) >= 0)
    assert not count or len(times) <= count
    assert not duration_s or np.all(times < duration_s)


@given(st.sampled_from(OPEN_KINDS), st.integers(1, 9_000), st.integers(0, 2**62))
def test_a_shorter_load_is_the_beginning_of_a_longer_one(kind: ArrivalKind, count: int, seed: int) -> None:
    longer = times_of(kind, count=9_000, seed=seed, rate=50.0)
    assert np.array_equal(times_of(kind, count=count, seed=seed, rate=50.0), longer[:count])
