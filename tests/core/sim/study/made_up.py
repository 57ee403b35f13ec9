"""Runs of deployments that do not exist."""

from __future__ import annotations

from collections.abc import Sequence

from baton.core.sim.study.measured import DUE, GOOD, SHARE, Measured
from baton.core.sim.study.uses import RoleUse, TokenTimes, Waits

USE = RoleUse(count=1, busy=0.5, decodes=10, kv_use=0.2, decode_step_s=0.02, mixed_step_s=0.0, mixed_share=0.0)
WAITS = Waits(
    placed_p90_s=0.0, placed_p99_s=0.0, computed_p90_s=0.1, computed_p99_s=0.1, handed_over_p50_s=0.01,
    handed_over_p90_s=0.01, handed_over_p99_s=0.01, prompts_on_decode=0.0,
)  # fmt: skip
TOKENS = TokenTimes(decode_s=0.02, prompts_s=0.0, late_alone=0.0, late_with_prompts=0.0)


def run(
    share: float,
    due: float = 10.0,
    parts: Sequence[float] = (),
    attainment: dict[str, float] | None = None,
    uses: dict[str, RoleUse] | None = None,
    waits: Waits = WAITS,
    tokens: TokenTimes = TOKENS,
    arriving: float = 0.9,
    **figures: float,
) -> Measured:
    return Measured(
        figures={SHARE: share, DUE: due, GOOD: share * due, **figures},
        within={},
        share_by_part=tuple(parts),
        attainment=attainment or {"ttft_s": share},
        uses=uses or {"unified": USE},
        waits=waits,
        tokens=tokens,
        arriving=arriving,
        num_requests=100,
    )
