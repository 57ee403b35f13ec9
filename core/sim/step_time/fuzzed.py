"""How long a step of the fuzzed world takes: affine in its tokens and its decodes, with noise. Virtual seconds."""

from __future__ import annotations

from typing import NamedTuple

from baton.core.executor.steps import StepPlan


class StepTime(NamedTuple):
    """`base_s + token_s · prefill tokens + decode_s · decodes`, times (1 … 1 + noise)."""

    base_s: float = 4e-3
    token_s: float = 1e-4
    decode_s: float = 2e-4
    noise: float = 0.3

    def of(self, plan: StepPlan, uniform: float) -> float:
        """Duration of this plan; `uniform` in [0, 1) draws the noise."""
        num_decodes = len(plan.decodes)
        num_tokens = 0
        for item in plan.items:
            if item.num_tokens == 1:
                num_decodes += 1
            else:
                num_tokens += item.num_tokens
        mean_s = self.base_s + self.token_s * num_tokens + self.decode_s * num_decodes
        return mean_s * (1.0 + self.noise * uniform)
