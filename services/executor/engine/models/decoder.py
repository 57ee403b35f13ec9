"""The forward pass: packed tokens of many sequences through all layers, KV written to and read from paged memory."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch.nn.functional import linear, rms_norm, silu

from baton.services.executor.engine.batch import Batch
from baton.services.executor.engine.kernels import reference
from baton.services.executor.engine.kv_cache import KvCache
from baton.services.executor.engine.models.config import DecoderConfig
from baton.services.executor.engine.models.rope import rope_table, rotate
from baton.services.executor.engine.models.weights import DecoderWeights, LayerWeights

AddUp = Callable[[torch.Tensor], torch.Tensor]
"""What a rank's part of a layer's output is, summed over all ranks."""


class Decoder:
    """Computes any `DecoderConfig` in any dtype with torch operations. `add_up`: this is one rank of several."""

    def __init__(
        self, config: DecoderConfig, weights: DecoderWeights, cache: KvCache, add_up: AddUp | None = None
    ) -> None:
        self.config = config
        self._weights = weights
        self._cache = cache
        self._add_up = add_up or _alone
        self._rope = rope_table(config.rope, config.head_dim, config.max_model_len, cache.memory.dtype)
        self._num_q = config.num_heads * config.head_dim
        self._num_kv = config.num_kv_heads * config.head_dim

    def forward(self, batch: Batch, wrote: Callable[[int], None]) -> torch.Tensor:
        """Write the KV of all rows; return their last hidden states [num_tokens, hidden_size].

        `wrote` is called after each layer with the number of KV layers that are written."""
        hidden = self._weights.embedding[torch.from_numpy(batch.tokens)]  # [num_tokens, hidden_size]
        step = _StepTensors(batch, self._rope)
        kv_layer = 0
        for _ in range(self.config.num_loops):
            for layer in self._weights.layers:
                hidden = self._layer(hidden, layer, kv_layer, batch, step)
                kv_layer += 1
                wrote(kv_layer)
        return hidden

    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        """[num_rows, vocab_size] of rows that `forward` returned."""
        logits = linear(self._norm(hidden, self._weights.final_norm), self._weights.unembedding)
        if self.config.logit_round_bits:
            scale = float(1 << self.config.logit_round_bits)
            logits = (logits * scale).round_().div_(scale)
        return logits

    def _norm(self, rows: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return rms_norm(rows, weight.shape, weight, self.config.norm_eps)

    def _layer(
        self, hidden: torch.Tensor, layer: LayerWeights, kv_layer: int, batch: Batch, step: _StepTensors
    ) -> torch.Tensor:
        qkv = linear(self._norm(hidden, layer.input_norm), layer.qkv, layer.qkv_bias)
        attended = self._attend(qkv, layer, kv_layer, batch, step)
        hidden = hidden + self._add_up(linear(attended, layer.output, layer.output_bias))
        gate, up = linear(self._norm(hidden, layer.mlp_norm), layer.gate_up, layer.gate_up_bias).chunk(2, dim=-1)
        return hidden + self._add_up(linear(silu(gate) * up, layer.down, layer.down_bias))

    def _attend(
        self, qkv: torch.Tensor, layer: LayerWeights, kv_layer: int, batch: Batch, step: _StepTensors
    ) -> torch.Tensor:
        """Rotate, store KV and attend; returns [num_tokens, num_heads * head_dim]."""
        head_dim = self.config.head_dim
        queries, keys, values = (
            part.unflatten(-1, (-1, head_dim)) for part in qkv.split((self._num_q, self._num_kv, self._num_kv), dim=-1)
        )
        if layer.q_norm is not None and layer.k_norm is not None:
            queries, keys = self._norm(queries, layer.q_norm), self._norm(keys, layer.k_norm)
        queries, keys = rotate(queries, step.rope_rows), rotate(keys, step.rope_rows)
        self._cache.write(kv_layer, step.slots, keys, values)
        attended = torch.empty_like(queries)
        for chunk in batch.chunks:
            rows = slice(chunk.row, chunk.row + chunk.num_tokens)
            blocks = torch.from_numpy(chunk.blocks)
            attended[rows] = reference.attend_chunk(queries[rows], self._cache, kv_layer, blocks, chunk.start)
        if len(batch.decode_rows):
            attended[step.decode_rows] = reference.attend_decodes(
                queries[step.decode_rows], self._cache, kv_layer, step.decode_tables, step.decode_lengths
            )
        return attended.flatten(1)


def _alone(part: torch.Tensor) -> torch.Tensor:
    return part


class _StepTensors:
    """A batch's arrays as tensors, made once for all layers."""

    def __init__(self, batch: Batch, rope: torch.Tensor) -> None:
        self.rope_rows = rope[torch.from_numpy(batch.positions)]  # [num_tokens, head_dim]
        self.slots = torch.from_numpy(batch.slots)
        self.decode_rows = torch.from_numpy(batch.decode_rows)
        self.decode_tables = torch.from_numpy(batch.decode_tables)
        self.decode_lengths = torch.from_numpy(batch.decode_lengths)
