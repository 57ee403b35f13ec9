"""How long a prompt would take on an executor, in microseconds: from what the executors measured of themselves lately.

Affine in tokens and steps, so that a decision costs a few multiplications. It compares candidates; nothing waits for
the time that it names.
"""

from __future__ import annotations

from baton.core.scheduler.executors import Executor
from baton.core.wire.messages import Pace


class Predictor:
    """`read` the fleet's measurements before a walk. An executor that has not measured something yet counts as the
    slowest that has; while none has measured a prompt's tokens, nothing is predicted."""

    def __init__(self, interruption_weight: float) -> None:
        self._weight = interruption_weight
        self._slowest = Pace()

    def read(self, paces: list[Pace]) -> None:
        """What they all measured."""
        speeds = [pace.transfer_bytes_per_s for pace in paces if pace.transfer_bytes_per_s > 0]
        self._slowest = Pace(
            max([pace.prefill_token_us for pace in paces], default=0.0),
            max([pace.prefill_step_us for pace in paces], default=0.0),
            0.0,  # where no decode step was measured none has to be waited for
            max([pace.transfer_us for pace in paces], default=0.0),
            min(speeds, default=0.0),
        )

    @property
    def is_measured(self) -> bool:
        return self._slowest.prefill_token_us > 0

    def handed_off_us(self, prefill: Executor, num_queued: int, num_tokens: int, decode: Executor, sent: int) -> float:
        """Until `decode` may decode what `prefill` computes behind `num_queued` other tokens. `sent` blocks go there;
        all but the last go while later tokens are computed, so that the longer of the two counts."""
        queue = self._alone_us(prefill, num_queued)
        own = self._alone_us(prefill, num_queued + num_tokens) - queue
        arrival = decode.pace.decode_step_us if decode.num_attempts else 0.0  # a step is under way
        return queue + max(own, self._bytes_us(prefill, sent)) + self._of(prefill, "transfer_us") + arrival

    def local_us(self, executor: Executor, num_queued: int, num_tokens: int) -> float:
        """Until an executor that decodes may decode what it computes itself, behind `num_queued` other tokens; and
        what that delays the attempts that decode there, by its weight. Each of its steps serves both."""
        num_decodes = executor.num_attempts
        decode_step = executor.pace.decode_step_us if num_decodes else 0.0
        step = max(decode_step, self._of(executor, "prefill_step_us"))
        token = self._of(executor, "prefill_token_us")
        num_steps = _num_steps(executor, num_queued + num_tokens)
        time = decode_step + num_steps * step + (num_queued + num_tokens) * token
        delay = _num_steps(executor, num_tokens) * (step - decode_step) + num_tokens * token
        return time + self._weight * num_decodes * delay

    def compute_us(self, executor: Executor, num_tokens: int) -> float:
        """Until it has computed so many prompt tokens."""
        steps = _num_steps(executor, num_tokens) * self.step_us(executor)
        return steps + num_tokens * self._of(executor, "prefill_token_us")

    def step_us(self, executor: Executor) -> float:
        """Of a step with prompt tokens, beyond those tokens."""
        decode_step = executor.pace.decode_step_us if executor.num_attempts else 0.0
        return max(decode_step, self._of(executor, "prefill_step_us"))

    # ---- inside

    def _alone_us(self, executor: Executor, num_tokens: int) -> float:
        """Of an executor that decodes nothing."""
        steps = _num_steps(executor, num_tokens) * self._of(executor, "prefill_step_us")
        return steps + num_tokens * self._of(executor, "prefill_token_us")

    def _bytes_us(self, prefill: Executor, num_blocks: int) -> float:
        speed = self._of(prefill, "transfer_bytes_per_s")
        return num_blocks * prefill.capacity.block_bytes * 1e6 / speed if speed else 0.0

    def _of(self, executor: Executor, name: str) -> float:
        return getattr(executor.pace, name) or getattr(self._slowest, name)  # type: ignore[no-any-return]


def _num_steps(executor: Executor, num_tokens: int) -> int:
    return -(-num_tokens // executor.capacity.token_budget)
