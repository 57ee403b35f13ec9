"""What a decoder is, in numbers: read from a model folder's `config.json`, without torch."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec

from baton.core.errors import Incompatible


class RopeConfig(msgspec.Struct, frozen=True):
    """Rotary position embedding; with `kind` "llama3" low frequencies are stretched by `factor`."""

    theta: float
    kind: str = "default"  #: default, linear or llama3
    factor: float = 1.0
    low_freq_factor: float = 1.0
    high_freq_factor: float = 4.0
    original_max_len: int = 8192


class DecoderConfig(msgspec.Struct, frozen=True):
    """A pre-norm decoder: grouped-query attention, gated SiLU MLP, the layer stack passed `num_loops` times."""

    family: str
    vocab_size: int
    hidden_size: int
    intermediate_size: int
    num_layers: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    norm_eps: float
    rope: RopeConfig
    max_model_len: int
    is_tied: bool  #: the output matrix is the embedding
    has_qkv_bias: bool = False
    has_output_bias: bool = False  #: of the attention's output projection
    has_mlp_bias: bool = False
    has_qk_norm: bool = False
    num_loops: int = 1
    logit_round_bits: int = 0  #: logits are rounded to multiples of 2^-bits before they are used; 0: not

    @property
    def num_kv_layers(self) -> int:
        """Places that keep KV for each token: a looped model keeps it for each pass."""
        return self.num_layers * self.num_loops


def read_rope(raw: dict[str, Any]) -> RopeConfig:
    """From `rope_parameters`, or from the older `rope_theta` and `rope_scaling`."""
    scaling = raw.get("rope_parameters") or raw.get("rope_scaling") or {}
    theta = float(scaling.get("rope_theta") or raw.get("rope_theta") or 10_000.0)
    kind = scaling.get("rope_type") or scaling.get("type") or "default"
    if kind == "default":
        return RopeConfig(theta)
    if kind == "linear":
        return RopeConfig(theta, kind, float(scaling["factor"]))
    if kind == "llama3":
        return RopeConfig(
            theta,
            kind,
            float(scaling["factor"]),
            float(scaling["low_freq_factor"]),
            float(scaling["high_freq_factor"]),
            int(scaling["original_max_position_embeddings"]),
        )
    raise Incompatible(f"rope scaling {kind!r} is not supported")


def read_common(raw: dict[str, Any], **family_fields: Any) -> DecoderConfig:
    """The keys that all families share; a family adds what it has of its own."""
    if raw.get("hidden_act", "silu") != "silu":
        raise Incompatible(f"activation {raw['hidden_act']!r} is not supported")
    if raw.get("use_sliding_window") or any(kind != "full_attention" for kind in raw.get("layer_types") or ()):
        raise Incompatible("sliding windows are not supported")
    num_heads = raw["num_attention_heads"]
    return DecoderConfig(
        family=raw["model_type"],
        vocab_size=raw["vocab_size"],
        hidden_size=raw["hidden_size"],
        intermediate_size=raw["intermediate_size"],
        num_layers=raw["num_hidden_layers"],
        num_heads=num_heads,
        num_kv_heads=raw.get("num_key_value_heads") or num_heads,
        head_dim=raw.get("head_dim") or raw["hidden_size"] // num_heads,
        norm_eps=raw.get("rms_norm_eps", 1e-6),
        rope=read_rope(raw),
        max_model_len=raw.get("max_position_embeddings", 2048),
        is_tied=bool(raw.get("tie_word_embeddings", False)),
        **family_fields,
    )


def read_json(folder: Path, name: str) -> dict[str, Any]:
    """One JSON object of a model folder."""
    path = folder / name
    if not path.is_file():
        raise Incompatible(f"{folder} has no {name}")
    loaded: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return loaded
