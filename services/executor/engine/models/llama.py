"""Llama and its kin (SmolLM2, Llama 3): optional biases on all four attention projections and on the MLP."""

from __future__ import annotations

from typing import Any

from baton.services.executor.engine.models.config import DecoderConfig, read_common


def read_llama(raw: dict[str, Any]) -> DecoderConfig:
    """`logit_round_bits` is a key of our tiny model: absent elsewhere."""
    has_bias = bool(raw.get("attention_bias", False))
    return read_common(
        raw,
        has_qkv_bias=has_bias,
        has_output_bias=has_bias,
        has_mlp_bias=bool(raw.get("mlp_bias", False)),
        logit_round_bits=raw.get("logit_round_bits", 0),
    )
