"""A looped Llama: the same layers are passed `num_loops` times, and each pass keeps KV of its own.

KV layer `loop * num_layers + layer` belongs to one layer in one pass. The final norm follows the last pass only.
"""

from __future__ import annotations

from typing import Any

from baton.core.errors import Incompatible
from baton.services.executor.engine.models.config import DecoderConfig, read_common


def read_looped(raw: dict[str, Any]) -> DecoderConfig:
    num_loops = raw["num_loops"]
    if num_loops < 1:
        raise Incompatible(f"num_loops is {num_loops}")
    return read_common(raw, num_loops=num_loops)
