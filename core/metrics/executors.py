"""What an executor did in a run, where that is known: of a simulated one."""

from __future__ import annotations

import msgspec


class ExecutorUse(msgspec.Struct, frozen=True, kw_only=True):
    """One executor over the whole run, what came before the measured phase included."""

    name: str
    num_steps: int
    busy_share: float  #: of the run's time, its device computed
    occupied_share: float = 0.0  #: of the run's time, its loop did nothing else
    kv_bytes: int = 0  #: of KV that it sent to other executors
