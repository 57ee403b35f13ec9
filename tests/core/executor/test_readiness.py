"""What an executor says when it is asked whether it can work."""

from __future__ import annotations

from baton.core.executor.events import Drain, StepFailed
from baton.core.ids import Role
from tests.support.machines import ROUTER, SCHEDULER, D, ExecutorRig, P, decoder, prefiller, prompt, unified, work


def test_it_needs_a_scheduler_and_a_router():
    rig = ExecutorRig(Role.UNIFIED)
    assert rig.core.readiness() == "no session with the scheduler"
    rig.up(SCHEDULER)
    assert rig.core.readiness() == "no session with a router"
    rig.up(ROUTER)
    assert rig.core.readiness() == ""


def test_one_that_writes_or_receives_needs_a_transport():
    rig = ExecutorRig(Role.PREFILL)
    rig.up(SCHEDULER, ROUTER, D)
    assert rig.core.readiness() == "no transport to another executor"
    rig.connect(D)
    assert rig.core.readiness() == ""
    assert decoder(P).core.readiness() == prefiller(D).core.readiness() == ""


def test_r2_a_decode_executor_without_any_other_may_compute_prompts():
    rig = ExecutorRig(Role.DECODE)
    rig.up(SCHEDULER, ROUTER)
    assert rig.core.readiness() == ""
    rig.up(P)
    assert rig.core.readiness() == "no transport to another executor"


def test_one_that_drains_or_has_stopped_is_not_ready():
    rig = unified()
    rig.run(1, work(prompt(8)))
    rig.do(Drain())
    assert rig.core.readiness() == "draining"
    rig.do(StepFailed(rig.steps[0].step_id, "wait", False, "no proof"))
    assert rig.core.readiness() == "stopped"
