"""O2: nothing to do means blocked: after a wake no machine wants the next one at once."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from baton.core.events import Wake
from tests.support.machines import ROUTER, SCHEDULER, D, ExecutorRig, P, decoder, prompt, unified, work
from tests.support.routing import RouterRig
from tests.support.scheduling import SchedulerRig, pair_of


def is_blocked(rig) -> bool:
    """Whether the driver sleeps after it has waked the machine at its own request, once at each of its times."""
    for _ in range(3):
        rig.do(Wake())
        if rig.core.next_wake is None:
            return True
        if rig.core.next_wake <= rig.now:
            return False
        rig.now = rig.core.next_wake
    return True


def test_o2_a_machine_alone_wants_no_wake_at_all():
    assert ExecutorRig(P.role).core.next_wake is None
    assert SchedulerRig().core.next_wake is None
    assert RouterRig().core.next_wake is None


@given(st.data())
def test_o2_an_executor_with_work_sleeps_until_something_happens(data):
    rig = data.draw(st.sampled_from([unified, decoder]))()
    asked = work(prompt(data.draw(st.integers(1, 20))), max_tokens=3)
    left_ms = data.draw(st.integers(1, 5000))
    if rig.own.role is D.role:
        rig.decode(1, asked, P, left_ms=left_ms)
    else:
        rig.run(1, asked, left_ms=left_ms)
    if data.draw(st.booleans()):
        rig.down(data.draw(st.sampled_from([ROUTER, SCHEDULER])))
    for _ in range(data.draw(st.integers(0, 3))):
        assert is_blocked(rig)
        if rig.steps:
            rig.step_done()
    rig.finish_steps()
    assert is_blocked(rig)


@given(st.lists(st.integers(1, 5000), max_size=5), st.booleans())
def test_o2_a_scheduler_with_a_queue_sleeps_until_a_deadline(deadlines_ms, has_executors):
    rig = SchedulerRig()
    if has_executors:
        pair_of(rig, d={"num_blocks": 5})
    for number, left_ms in enumerate(deadlines_ms):
        rig.submit(number, time_left_ms=left_ms)
    assert is_blocked(rig)


@given(st.lists(st.floats(0.01, 5.0), max_size=5), st.booleans())
def test_o2_a_router_with_requests_sleeps_until_its_next_time(timeouts_s, is_placed):
    rig = RouterRig()
    for number, timeout_s in enumerate(timeouts_s):
        rig.arrive(number, timeout_s=timeout_s)
        if is_placed:
            rig.placed()
    assert is_blocked(rig)
