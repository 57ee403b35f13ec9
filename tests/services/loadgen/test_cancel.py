"""Which requests this side ends early."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from baton.services.loadgen.cancel import cancel_times
from baton.services.loadgen.load_errors import BadLoad
from baton.services.loadgen.plan import NEVER


@given(st.integers(0, 400), st.floats(0, 1), st.integers(0, 2**62))
def test_exactly_the_share_is_cancelled_within_the_delays(count: int, share: float, seed: int) -> None:
    times = cancel_times(count, share, "uniform:0.5-2", seed)
    cancelled = [time_s for time_s in times if time_s != NEVER]
    assert (len(times), len(cancelled)) == (count, round(share * count))
    assert all(0.5 <= time_s <= 2 for time_s in cancelled)
    assert times == cancel_times(count, share, "uniform:0.5-2", seed)


def test_a_fixed_delay_and_none_are_possible() -> None:
    assert cancel_times(3, 1.0, "0.25", 0) == [0.25] * 3
    assert cancel_times(2, 1.0, "0", 0) == [0.0, 0.0]


@pytest.mark.parametrize("spec", ["-1", "soon", "uniform:2-1"])
def test_a_delay_that_is_none_is_named(spec: str) -> None:
    with pytest.raises(BadLoad, match="cancel_after_s"):
        cancel_times(3, 0.5, spec, 0)
