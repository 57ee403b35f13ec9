"""Which requests this side ends before their answer is over, and how long after it sent them."""

from __future__ import annotations

import numpy as np

from baton.services.loadgen.draws import Purpose, generator, parse_spread
from baton.services.loadgen.plan import NEVER


def cancel_times(count: int, share: float, delay_spec: str, seed: int) -> list[float]:
    """`[num_requests]` seconds after sending, or NEVER: of `count` requests exactly the share, chosen by chance.

    The delay's spec is `0.5` or `uniform:0.1-2`, in seconds. Raises BadLoad.
    """
    spread = parse_spread(delay_spec, "cancel_after_s", least=0.0, is_whole=False)
    rng = generator(seed, Purpose.CANCELLATIONS)
    times = np.full(count, NEVER)
    chosen = rng.permutation(count)[: round(share * count)]
    times[chosen] = spread.draw(rng, len(chosen))
    return [float(time_s) for time_s in times]
