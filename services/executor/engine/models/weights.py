"""Weights of a decoder, read from safetensors and fused: one matrix for q, k, v and one for gate and up."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open

from baton.core.errors import Incompatible
from baton.services.executor.engine.models.config import DecoderConfig, read_json
from baton.services.executor.engine.models.shard import WHOLE, Shard


class Tensors:
    """The tensors of a model folder by name; remembers which were taken, since one left over is a part not computed."""

    def __init__(self, folder: Path, dtype: torch.dtype, shard: Shard = WHOLE) -> None:
        self._dtype = dtype
        self._shard = shard
        self._files = {}  #: tensor name -> open file
        names = {"model.safetensors"}
        if not (folder / "model.safetensors").is_file():
            names = set(read_json(folder, "model.safetensors.index.json")["weight_map"].values())
        for name in sorted(names):
            opened = safe_open(folder / name, framework="pt")
            self._files.update({key: opened for key in opened.keys()})  # noqa: SIM118 (not a dict)

    def take(self, name: str) -> torch.Tensor:
        tensor: torch.Tensor = self._open(name).get_tensor(name)
        return tensor.to(self._dtype)

    def take_rows(self, name: str) -> torch.Tensor:
        """This rank's rows; only they are read."""
        part = self._open(name).get_slice(name)
        tensor: torch.Tensor = part[self._shard.part(part.get_shape()[0])]
        return tensor.to(self._dtype)

    def take_columns(self, name: str) -> torch.Tensor:
        """This rank's columns of a matrix; only they are read."""
        part = self._open(name).get_slice(name)
        tensor: torch.Tensor = part[:, self._shard.part(part.get_shape()[1])]
        return tensor.to(self._dtype)

    def take_once(self, name: str) -> torch.Tensor | None:
        """What is added to a sum over the ranks: on the first one."""
        tensor = self.take(name)
        return tensor if self._shard.is_first else None

    def join(self, prefix: str, parts: tuple[str, ...], suffix: str) -> torch.Tensor:
        """This rank's rows of tensors `prefix + part + suffix`, one below the other."""
        return torch.cat([self.take_rows(prefix + part + suffix) for part in parts])

    def discard(self, name: str) -> None:
        self._files.pop(name, None)

    def _open(self, name: str) -> Any:
        opened = self._files.pop(name, None)
        if opened is None:
            raise Incompatible(f"the model has no tensor {name!r}")
        return opened

    def check_all_taken(self) -> None:
        if self._files:
            raise Incompatible(f"the model has {len(self._files)} tensors that nothing uses: {min(self._files)!r} …")


class LayerWeights:
    """One layer; biases and head norms are None where the family has none. Matrices are [num_outputs, num_inputs]."""

    def __init__(self, tensors: Tensors, index: int, config: DecoderConfig) -> None:
        prefix = f"model.layers.{index}."
        attention, mlp, qkv = prefix + "self_attn.", prefix + "mlp.", ("q_proj", "k_proj", "v_proj")
        self.input_norm = tensors.take(prefix + "input_layernorm.weight")
        self.qkv = tensors.join(attention, qkv, ".weight")
        self.qkv_bias = tensors.join(attention, qkv, ".bias") if config.has_qkv_bias else None
        self.q_norm = tensors.take(attention + "q_norm.weight") if config.has_qk_norm else None
        self.k_norm = tensors.take(attention + "k_norm.weight") if config.has_qk_norm else None
        self.output = tensors.take_columns(attention + "o_proj.weight")
        self.output_bias = tensors.take_once(attention + "o_proj.bias") if config.has_output_bias else None
        self.mlp_norm = tensors.take(prefix + "post_attention_layernorm.weight")
        self.gate_up = tensors.join(mlp, ("gate_proj", "up_proj"), ".weight")
        self.gate_up_bias = tensors.join(mlp, ("gate_proj", "up_proj"), ".bias") if config.has_mlp_bias else None
        self.down = tensors.take_columns(mlp + "down_proj.weight")
        self.down_bias = tensors.take_once(mlp + "down_proj.bias") if config.has_mlp_bias else None
        tensors.discard(attention + "rotary_emb.inv_freq")


class DecoderWeights:
    """All weights of a decoder that one rank computes with, in one dtype."""

    def __init__(self, folder: Path, config: DecoderConfig, dtype: torch.dtype, shard: Shard = WHOLE) -> None:
        tensors = Tensors(folder, dtype, shard)
        self.embedding = tensors.take("model.embed_tokens.weight")  # [vocab_size, hidden_size]
        self.layers = [LayerWeights(tensors, index, config) for index in range(config.num_layers)]
        self.final_norm = tensors.take("model.norm.weight")
        if config.is_tied:
            tensors.discard("lm_head.weight")
            self.unembedding = self.embedding
        else:
            self.unembedding = tensors.take("lm_head.weight")
        tensors.check_all_taken()
