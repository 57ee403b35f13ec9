"""What a device on the host computes of a model, and with how much memory."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from baton.core.layout import KvLayout
    from baton.services.executor.engine.models.config import DecoderConfig


class CpuPart(NamedTuple):
    """A whole model, or one rank's part of it."""

    folder: Path  #: of the model
    config: DecoderConfig  #: of the part
    layout: KvLayout  #: of the part's KV
    num_blocks: int
    num_threads: int
