"""Which `model_type` of a `config.json` is read by which family."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from baton.core.errors import Incompatible
from baton.services.executor.engine.models.config import DecoderConfig, read_json
from baton.services.executor.engine.models.llama import read_llama
from baton.services.executor.engine.models.looped import read_looped
from baton.services.executor.engine.models.qwen2 import read_qwen2
from baton.services.executor.engine.models.qwen3 import read_qwen3

FAMILIES: dict[str, Callable[[dict[str, Any]], DecoderConfig]] = {
    "llama": read_llama,
    "qwen2": read_qwen2,
    "qwen3": read_qwen3,
    "looped_llama": read_looped,
}


def read_decoder_config(folder: Path) -> DecoderConfig:
    """The decoder that a model folder describes; Incompatible if no family here computes it."""
    raw = read_json(folder, "config.json")
    family = FAMILIES.get(raw.get("model_type", ""))
    if family is None:
        raise Incompatible(f"model type {raw.get('model_type')!r} is none of {', '.join(sorted(FAMILIES))}")
    return family(raw)
