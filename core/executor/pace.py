"""What steps were measured to cost lately, by kind: decodes alone, and with parts of prompts.

Each kind is a line, fitted by least squares that forget: decodes alone are a fixed part and a part for each sequence;
a step with prompt tokens is a fixed part and a part for each of them, after what its decodes cost was taken off. Errors
count as parts of a step's cost, so that the many small steps are met, whose fixed part matters, and not a few large
ones at another slope. Where all steps of late had about the same size, a line through them says nothing: then the
fixed part of a prompt step is taken to be that of a decode step, and a decode step's cost to be fixed. Nothing is ever
negative, and one step that took absurdly long moves the fit by a bounded amount.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from baton.core.executor import adaptive
from baton.core.wire.messages import MAX_MEASURE, Pace

if TYPE_CHECKING:
    from baton.core.executor.state import ExecutorState, LaunchedStep

DECODE_MEMORY = 1 / 256  #: weight of the newest decode step, against all before it
PROMPT_MEMORY = 1 / 64
MAX_STEP_S = 60.0  #: what counts of one step at most
MAX_RATIO = 4.0  #: the same, in what the fit expected
NUM_TRUSTED = 8  #: steps from which on the fit's expectation is a measure
NUM_SLOPE = 3  #: steps, of sizes apart, from which on their slope is one
SPREAD = 0.02  #: sizes that vary by less than this part do not show a slope
TRUST = 4.0  #: how much more than that, in squares, they must vary for the slope to be a measure by itself
TELL_EVERY_S = 0.25
TELL_CHANGE = 0.1  #: part by which a value must have moved to be told again

Measures = tuple[float, ...]  #: the fields of `Pace`
NOTHING: Measures = msgspec.structs.astuple(Pace())


class Line:
    """Forgetting least squares of `fixed_s + each_s · size`, both at least 0: of `fixed_s / size + each_s`, in fact, to
    the cost for each unit of the size."""

    __slots__ = ("_cov", "_mean_cost", "_mean_inverse", "_memory", "_var", "mean_s", "num")

    def __init__(self, memory: float) -> None:
        self._memory = memory
        self.num = 0  #: steps so far, counted up to where they no longer matter
        self.mean_s = 0.0
        self._mean_inverse = 0.0  #: 1 / size
        self._mean_cost = 0.0  #: seconds / size
        self._var = 0.0  #: of 1 / size
        self._cov = 0.0  #: of both

    def add(self, size: float, seconds: float, expected_s: float) -> None:
        """One step; `expected_s`: what the fit says of it."""
        seconds = max(0.0, min(seconds, MAX_STEP_S))
        if self.num >= NUM_TRUSTED and expected_s > 0:
            seconds = min(seconds, MAX_RATIO * expected_s)
        self.num = min(self.num + 1, 1 << 20)
        weight = max(self._memory, 1.0 / self.num)
        d_inverse, d_cost = 1.0 / size - self._mean_inverse, seconds / size - self._mean_cost
        self.mean_s += weight * (seconds - self.mean_s)
        self._mean_inverse += weight * d_inverse
        self._mean_cost += weight * d_cost
        self._var += weight * ((1.0 - weight) * d_inverse * d_inverse - self._var)
        self._cov += weight * ((1.0 - weight) * d_inverse * d_cost - self._cov)

    def fit(self, assumed_fixed_s: float) -> tuple[float, float]:
        """(fixed_s, each_s). The less the sizes varied, the more the fixed part is the assumed one."""
        if not self.num:
            return 0.0, 0.0
        most = self._mean_cost / self._mean_inverse
        doubt = self._doubt
        fixed = (self._cov + doubt * min(assumed_fixed_s, most)) / (self._var + doubt)
        fixed = max(0.0, min(fixed, most))
        return fixed, max(0.0, self._mean_cost - fixed * self._mean_inverse)

    @property
    def has_slope(self) -> bool:
        """Whether sizes of late varied enough that the fit does not lean on what is assumed."""
        return self.num >= NUM_SLOPE and self._var > TRUST * self._doubt

    @property
    def _doubt(self) -> float:
        """The variance up to which sizes count as all the same."""
        return (SPREAD * self._mean_inverse) ** 2

    def fixed_share(self, fixed_s: float) -> float:
        """What part of a step's cost such a fixed part is, in the mean; 1: not measured yet."""
        return min(1.0, fixed_s * self._mean_inverse / self._mean_cost) if self._mean_cost > 0 else 1.0


class StepPace:
    """One executor's measures. Fed with every step that is done; all durations are the device's own."""

    def __init__(self) -> None:
        self._decodes = Line(DECODE_MEMORY)
        self._prompts = Line(PROMPT_MEMORY)
        self._fit_decodes = (0.0, 0.0)
        self._fit_prompts = (0.0, 0.0)
        self.told: Measures | None = None  #: in this session with the scheduler
        self.has_news = True  #: something was measured since it was last looked at whether to tell it
        self._told_at = 0.0

    @property
    def decode_step_s(self) -> float:
        """A step of decodes alone, at the batches of late; 0: not measured yet."""
        return self._decodes.mean_s

    @property
    def decode_each_s(self) -> float:
        """One more sequence in a step of decodes."""
        return self._fit_decodes[1]

    @property
    def prompt_fixed_s(self) -> float:
        """A step with prompt tokens, beyond those tokens; 0: not measured yet."""
        return self._fit_prompts[0]

    @property
    def prompt_token_s(self) -> float:
        """One more prompt token in a step; 0: not measured yet."""
        return self._fit_prompts[1]

    @property
    def prompt_fixed_share(self) -> float:
        """What part of the steps with prompts of late was their fixed part; 1: not measured yet."""
        return self._prompts.fixed_share(self.prompt_fixed_s)

    def is_sharing_worth(self, num_tokens: int, num_prompts: int, num_more: int, num_waiting: int) -> bool:
        """See `adaptive`. True while steps of late were too alike to show what sharing saves: filled ones show it."""
        if not self._prompts.has_slope:
            return True
        return adaptive.is_sharing_worth(*self._fit_prompts, num_tokens, num_prompts, num_more, num_waiting)

    def record(self, step: LaunchedStep, duration_s: float) -> None:
        """The step is done."""
        self.has_news = True
        num_decodes = step.num_decodes
        num_prompt_tokens = step.num_prompt_tokens
        if num_prompt_tokens:
            fixed_s, each_s = self._fit_prompts
            own_s = max(0.0, duration_s - self.decode_each_s * num_decodes)
            self._prompts.add(num_prompt_tokens, own_s, fixed_s + each_s * num_prompt_tokens)
        elif num_decodes:
            fixed_s, each_s = self._fit_decodes
            self._decodes.add(num_decodes, duration_s, fixed_s + each_s * num_decodes)
            self._fit_decodes = self._decodes.fit(self._decodes.mean_s)
        self._fit_prompts = self._prompts.fit(self._fit_decodes[0])

    def begin_session(self) -> None:
        """The scheduler knows nothing of what was told before."""
        self.told = None
        self.has_news = True

    def tell(self, state: ExecutorState) -> None:
        """Tell the scheduler what has changed by more than a tenth since it was told, a few times a second at most."""
        if not self.has_news or state.scheduler is None:
            return
        if self.told is not None and state.now < self._told_at + TELL_EVERY_S:
            return
        self.has_news = False
        fresh = self.measures(state)
        if _differs(fresh, self.told or NOTHING):
            self.told, self._told_at = fresh, state.now
            state.tell_scheduler(Pace(*fresh))

    def measures(self, state: ExecutorState) -> Measures:
        """The fields of `Pace`."""
        return (
            self.prompt_token_s * 1e6,
            self.prompt_fixed_s * 1e6,
            self.decode_step_s * 1e6,
            min(state.transfer_pace.us, MAX_MEASURE),
            min(state.transfer_pace.bytes_per_s, MAX_MEASURE),
        )

    def gauges(self) -> dict[str, float]:
        return {
            "pace_prompt_token_seconds": self.prompt_token_s,
            "pace_prompt_step_seconds": self.prompt_fixed_s,
            "pace_decode_step_seconds": self.decode_step_s,
            "pace_decode_sequence_seconds": self.decode_each_s,
        }


def _differs(fresh: Measures, told: Measures) -> bool:
    return any([abs(new - old) > TELL_CHANGE * old for new, old in zip(fresh, told, strict=True)])
