"""What devices share that compute inside `launch`: their completions and the store of results not yet collected."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from baton.core.executor.steps import ItemResult, SampledToken, StepResult
from baton.services.executor.engine.devices.base import CompletionState, DeviceBroken
from baton.services.executor.engine.sequences import DeviceSequence


def step_result(
    step_id: int,
    items: Sequence[ItemResult],
    padded_batch: int,
    decoding: Sequence[DeviceSequence],
    drawn: Sequence[SampledToken],
    num_context: int,
) -> StepResult:
    """All but the step's duration. `drawn[i]` is the sample of `decoding[i]`."""
    both = zip(decoding, drawn, strict=True)
    return StepResult(
        step_id,
        tuple(items),
        0.0,
        padded_batch,
        decoded=tuple([sampled.token for sampled in drawn]),
        num_context=num_context,
        logprobs=tuple([(s.seq_id, sampled.logprobs) for s, sampled in both if sampled.logprobs is not None]),
        grammar_failed=tuple([sequence.seq_id for sequence in decoding if sequence.grammar_failed]),
    )


class HostCompletion:
    """Completion of synchronous work: proven as soon as it is recorded, since `launch` has returned by then."""

    __slots__ = ("is_recorded",)

    def __init__(self) -> None:
        self.is_recorded = False


class HostQueue:
    """Completions and results of a synchronous device: a lane's order of work is that of its thread."""

    def __init__(self) -> None:
        self._results: dict[int, StepResult] = {}  #: by step_id; computed and not yet collected

    def tell_progress(self, say: Callable[[int, int], None]) -> None:
        """A device that knows of nothing before a step's end says nothing."""

    def create_completion(self, lane: int) -> HostCompletion:
        return HostCompletion()

    def record(self, completion: HostCompletion) -> None:
        if completion.is_recorded:
            raise DeviceBroken("a completion is recorded once")
        completion.is_recorded = True

    def query(self, completion: HostCompletion) -> CompletionState:
        return CompletionState.PROVEN if completion.is_recorded else CompletionState.BROKEN

    def wait(self, completion: HostCompletion) -> None:
        if not completion.is_recorded:
            raise DeviceBroken("waiting for a completion that was never recorded")

    def store(self, result: StepResult) -> None:
        self._results[result.step_id] = result

    def collect(self, step_id: int) -> StepResult:
        result = self._results.pop(step_id, None)
        if result is None:
            raise DeviceBroken(f"no result of step {step_id}")
        return result
