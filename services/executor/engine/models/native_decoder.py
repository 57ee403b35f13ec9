"""The same forward pass as `decoder.Decoder` in float32 on native kernels: a token's logits are bit for bit the same
whatever is computed beside it, however its prompt was cut and on however many threads."""

from __future__ import annotations

from collections.abc import Callable

import torch

from baton.services.executor.engine.batch import Batch
from baton.services.executor.engine.kernels.native import (
    AttentionStep,
    NativeAttention,
    PackedLinear,
    best_set,
    rms_norm,
)
from baton.services.executor.engine.kv_cache import KvCache
from baton.services.executor.engine.models.config import DecoderConfig
from baton.services.executor.engine.models.decoder import AddUp
from baton.services.executor.engine.models.rope import rope_table
from baton.services.executor.engine.models.weights import DecoderWeights, LayerWeights


class _PackedLayer:
    """One layer's matrices in panels; the originals are given up."""

    def __init__(self, layer: LayerWeights, which: int) -> None:
        self.input_norm = layer.input_norm
        self.qkv = PackedLinear(layer.qkv, layer.qkv_bias, which)
        self.norms = None if layer.q_norm is None or layer.k_norm is None else (layer.q_norm, layer.k_norm)
        self.output = PackedLinear(layer.output, layer.output_bias, which)
        self.mlp_norm = layer.mlp_norm
        self.gate_up = PackedLinear(layer.gate_up, layer.gate_up_bias, which, is_gated=True)
        self.down = PackedLinear(layer.down, layer.down_bias, which)


class NativeDecoder:
    """`which`: the instruction set; by default the widest. `add_up`: this is one rank of several."""

    def __init__(
        self,
        config: DecoderConfig,
        weights: DecoderWeights,
        cache: KvCache,
        num_threads: int,
        which: int | None = None,
        add_up: AddUp | None = None,
    ) -> None:
        self.config = config
        self._add_up = add_up
        self._which = best_set() if which is None else which
        self._num_threads = num_threads
        self._rope = rope_table(config.rope, config.head_dim, config.max_model_len, torch.float32)
        self._attention = NativeAttention(cache.memory, config.num_heads, self._which, num_threads)
        self._embedding = weights.embedding
        self._final_norm = weights.final_norm
        self._unembedding = PackedLinear(weights.unembedding, None, self._which)
        self._layers = []
        while weights.layers:  # one by one, so that packing needs one layer's memory more, not all
            self._layers.append(_PackedLayer(weights.layers.pop(0), self._which))

    def forward(self, batch: Batch, wrote: Callable[[int], None]) -> torch.Tensor:
        """Write the KV of all rows; return their last hidden states [num_tokens, hidden_size].

        `wrote` is called after each layer with the number of KV layers that are written."""
        hidden = self._embedding[torch.from_numpy(batch.tokens)]
        step = AttentionStep(batch)
        kv_layer = 0
        for _ in range(self.config.num_loops):
            for layer in self._layers:
                self._add_layer(hidden, layer, kv_layer, step)
                kv_layer += 1
                wrote(kv_layer)
        return hidden

    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        """[num_rows, vocab_size] of rows that `forward` returned."""
        return self._unembedding(self._norm(hidden, self._final_norm), self._num_threads)

    def _norm(self, rows: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return rms_norm(rows, weight, self.config.norm_eps, self._which, self._num_threads)

    def _add_layer(self, hidden: torch.Tensor, layer: _PackedLayer, kv_layer: int, step: AttentionStep) -> None:
        """`hidden` [num_tokens, hidden_size] is the residual stream, changed in place."""
        qkv = layer.qkv(self._norm(hidden, layer.input_norm), self._num_threads)
        self._attention.rope_store(kv_layer, qkv, self._rope, step, layer.norms, self.config.norm_eps)
        self._add(hidden, layer.output, self._attention.attend(kv_layer, qkv, step))
        self._add(hidden, layer.down, layer.gate_up(self._norm(hidden, layer.mlp_norm), self._num_threads))

    def _add(self, hidden: torch.Tensor, matrix: PackedLinear, rows: torch.Tensor) -> None:
        if self._add_up is None:
            matrix(rows, self._num_threads, added_to=hidden)
        else:
            hidden += self._add_up(matrix(rows, self._num_threads))
