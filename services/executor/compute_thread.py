"""The compute thread of a lane: hands its step plans to the device and proves that each has finished; its only duty.

From before `launch` until a proven completion a step's blocks belong to the device, and whatever fails on the way is
reported with whether the work is proven to have ended. A second thread does nothing but wait for completions that are
still pending, so that the next plan is launched while one runs.
"""

from __future__ import annotations

import os
import queue
import threading
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple

from baton.core.errors import InvariantViolated
from baton.core.executor.events import StepDone, StepFailed
from baton.core.executor.steps import MAIN_LANE, StepPlan
from baton.services.executor.engine.devices.base import CompletionState, Device, PlanRejected

MAX_QUEUED_STEPS = 2  #: of one lane
NICENESS = 19  #: below the loop and the transfer thread: a busy step must not hold back a chunk or a token


class _Launched(NamedTuple):
    """A step whose completion is recorded."""

    step_id: int
    completion: Any  #: the device's own


class _Waited(NamedTuple):
    """The oldest step's completion came; `error` says why it never can."""

    error: Exception | None


class ComputeThread:
    """Plans in by `submit`; `StepDone` and `StepFailed` out by `post_event`, in the order of the plans.

    `on_crash` gets what ended the thread unexpectedly: then nothing is proven.
    Lifecycle: `start`, `submit` …, `ask_to_stop`, `join`.
    """

    def __init__(
        self,
        device: Device[Any],
        post_event: Callable[[StepDone | StepFailed], None],
        on_crash: Callable[[BaseException], None],
        lane: int = MAIN_LANE,
        *,
        niceness: int = NICENESS,
    ) -> None:
        self.num_launched = 0  #: steps given to the device
        self.num_proven = 0  #: of them, those proven to have ended
        self._num_submitted = 0
        self._num_reported = 0
        self._device = device
        self._lane = lane
        self._post_event = post_event
        self._on_crash = on_crash
        self._niceness = niceness
        self._inbox: queue.SimpleQueue[StepPlan | _Waited | None] = queue.SimpleQueue()
        self._waiting: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._launched: deque[_Launched] = deque()  #: recorded and not proven, oldest first
        self._thread = threading.Thread(target=self._run_guarded, name="compute", daemon=True)
        self._waiter = threading.Thread(target=self._wait_for_completions, name="completions", daemon=True)

    def start(self) -> None:
        self._waiter.start()
        self._thread.start()

    @property
    def is_alive(self) -> bool:
        return self._thread.is_alive() and self._waiter.is_alive()

    @property
    def num_unproven(self) -> int:
        """Steps that the device may still be working on."""
        return self.num_launched - self.num_proven

    @property
    def num_unreported(self) -> int:
        """Steps that were submitted and of which nothing was said yet."""
        return self._num_submitted - self._num_reported

    def submit(self, plan: StepPlan) -> None:
        """Hand a plan over and return at once; never more than two are unreported."""
        if self.num_unreported >= MAX_QUEUED_STEPS:
            raise InvariantViolated(f"step {plan.step_id}: {MAX_QUEUED_STEPS} steps are queued already")
        self._num_submitted += 1
        self._inbox.put(plan)

    def ask_to_stop(self) -> None:
        """Launch nothing more; what was launched is still waited for and reported."""
        self._inbox.put(None)

    def join(self, timeout_s: float) -> bool:
        """Whether the thread ends in that time, and all that it launched is proven to have ended."""
        self._thread.join(timeout_s)
        return not self._thread.is_alive() and self.num_unproven == 0

    # ---- the compute thread

    def _report(self, event: StepDone | StepFailed) -> None:
        self._num_reported += 1  # before the post: its answer may be the next plan
        self._post_event(event)

    def _run_guarded(self) -> None:
        try:
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), self._niceness)
            self._device.enter_lane(self._lane)
            self._run()
        except Exception as error:
            self._on_crash(error)

    def _run(self) -> None:
        is_stopping = False
        while not is_stopping or self._launched:
            match self._inbox.get():
                case None:
                    is_stopping = True
                case _Waited(error):
                    self._finish_oldest(error)
                case StepPlan() as plan:
                    if not is_stopping:
                        self._launch(plan)
        self._waiting.put(None)

    def _launch(self, plan: StepPlan) -> None:
        stage = "launch"
        self.num_launched += 1  # before the call: it may have begun whatever it raises
        try:
            self._device.launch(plan)
            stage = "create"
            completion = self._device.create_completion(self._lane)
            stage = "record"
            self._device.record(completion)
            stage = "query"
            state = self._device.query(completion)
        except PlanRejected as error:  # its contract: nothing was launched
            self.num_proven += 1
            self._report(StepFailed(plan.step_id, stage, True, str(error)))
            return
        except Exception as error:
            self._fail_launched(plan.step_id, stage, error)
            return
        self._launched.append(_Launched(plan.step_id, completion))
        if state is CompletionState.PROVEN and len(self._launched) == 1:
            self._finish_oldest(None)
        else:
            self._waiting.put(completion)

    def _fail_launched(self, step_id: int, stage: str, error: Exception) -> None:
        """A step that may have begun: whether a completion recorded now can prove that all has ended."""
        proven = self._prove_all()
        if proven:
            self.num_proven += 1
        self._report(StepFailed(step_id, stage, proven, story(error)))

    def _prove_all(self) -> bool:
        try:
            completion = self._device.create_completion(self._lane)
            self._device.record(completion)
            self._device.wait(completion)
        except Exception:  # whatever it is: without a completion nothing is proven, and the caller tells its own error
            return False
        return True

    def _finish_oldest(self, error: Exception | None) -> None:
        step = self._launched.popleft()
        if error is not None:
            self._report(StepFailed(step.step_id, "wait", False, story(error)))
            return
        self.num_proven += 1
        try:
            result = self._device.collect(step.step_id)
        except Exception as lost:
            self._report(StepFailed(step.step_id, "collect", True, story(lost)))
            return
        self._report(StepDone(result))

    # ---- the waiting thread

    def _wait_for_completions(self) -> None:
        while (completion := self._waiting.get()) is not None:
            try:
                self._device.wait(completion)
            except Exception as error:
                self._inbox.put(_Waited(error))
            else:
                self._inbox.put(_Waited(None))


def story(error: BaseException) -> str:
    """The error and what caused it."""
    told = f"{type(error).__name__}: {error}"
    return told if error.__cause__ is None else f"{told} (from {story(error.__cause__)})"
