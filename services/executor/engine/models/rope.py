"""Rotary position embedding: tables of cosines and sines, and the rotation itself ("half" order, as Llama has it)."""

from __future__ import annotations

import math

import torch

from baton.services.executor.engine.models.config import RopeConfig


def inverse_frequencies(config: RopeConfig, head_dim: int) -> torch.Tensor:
    """float64[head_dim / 2], radians per position."""
    exponents = torch.arange(0, head_dim, 2, dtype=torch.float64) / head_dim
    frequencies = config.theta**-exponents
    if config.kind == "linear":
        return frequencies / config.factor
    if config.kind == "llama3":
        return _stretch_low_frequencies(frequencies, config)
    return frequencies


def _stretch_low_frequencies(frequencies: torch.Tensor, config: RopeConfig) -> torch.Tensor:
    """Wavelengths beyond `original / low` stretch by `factor`, those below `original / high` stay, others blend."""
    wavelengths = 2 * math.pi / frequencies
    span = config.high_freq_factor - config.low_freq_factor
    kept = ((config.original_max_len / wavelengths - config.low_freq_factor) / span).clamp(0.0, 1.0)
    return frequencies * kept + frequencies / config.factor * (1.0 - kept)


def rope_table(config: RopeConfig, head_dim: int, max_len: int, dtype: torch.dtype) -> torch.Tensor:
    """[max_len, head_dim]: cosines in the first half of a row, sines in the second."""
    angles = torch.outer(torch.arange(max_len, dtype=torch.float64), inverse_frequencies(config, head_dim))
    return torch.cat((angles.cos(), angles.sin()), dim=1).to(dtype)


def rotate(heads: torch.Tensor, table_rows: torch.Tensor) -> torch.Tensor:
    """Rotate [num_tokens, num_heads, head_dim] by each token's row of the table [num_tokens, head_dim]."""
    cosines, sines = table_rows.unsqueeze(1).chunk(2, dim=-1)
    first, second = heads.chunk(2, dim=-1)
    return torch.cat((first * cosines - second * sines, second * cosines + first * sines), dim=-1)
