"""Qwen3: an RMS norm over each head of queries and keys before they are rotated; `head_dim` is its own key."""

from __future__ import annotations

from typing import Any

from baton.services.executor.engine.models.config import DecoderConfig, read_common


def read_qwen3(raw: dict[str, Any]) -> DecoderConfig:
    has_bias = bool(raw.get("attention_bias", False))
    return read_common(raw, has_qkv_bias=has_bias, has_output_bias=has_bias, has_qk_norm=True)
