"""Qwen2 and Qwen2.5: always biased query, key and value projections, no other bias."""

from __future__ import annotations

from typing import Any

from baton.services.executor.engine.models.config import DecoderConfig, read_common


def read_qwen2(raw: dict[str, Any]) -> DecoderConfig:
    return read_common(raw, has_qkv_bias=True)
