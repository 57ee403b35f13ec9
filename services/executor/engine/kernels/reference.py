"""Attention over paged KV in plain torch: what the native kernels are compared with, and the path of float64."""

from __future__ import annotations

import torch
from torch.nn.functional import scaled_dot_product_attention

from baton.services.executor.engine.kv_cache import KvCache


def attend_chunk(
    queries: torch.Tensor, cache: KvCache, kv_layer: int, blocks: torch.Tensor, start: int
) -> torch.Tensor:
    """Causal attention of positions `[start, start + n)` over all positions up to their own.

    queries [n, num_heads, head_dim]; blocks int64[num_blocks]; returns [n, num_heads, head_dim].
    """
    num_tokens = queries.shape[0]
    keys, values = cache.gather(kv_layer, blocks, start + num_tokens)
    mask = None
    if start:
        mask = torch.ones(num_tokens, start + num_tokens, dtype=torch.bool).tril_(start)
    attended = scaled_dot_product_attention(
        queries.transpose(0, 1).unsqueeze(0),
        keys.transpose(0, 1).unsqueeze(0),
        values.transpose(0, 1).unsqueeze(0),
        attn_mask=mask,
        is_causal=mask is None,
        enable_gqa=True,
    )
    return attended.squeeze(0).transpose(0, 1)


def attend_decodes(
    queries: torch.Tensor, cache: KvCache, kv_layer: int, tables: torch.Tensor, lengths: torch.Tensor
) -> torch.Tensor:
    """One query per sequence over its whole context.

    queries [num_decodes, num_heads, head_dim]; tables int32[num_decodes, width]; lengths int64[num_decodes].
    Each sequence is computed by itself, so its numbers do not depend on its neighbours.
    """
    attended = torch.empty_like(queries)
    for index, length in enumerate(lengths.tolist()):
        blocks = tables[index, : -(-length // cache.block_size)].long()
        attended[index] = attend_chunk(queries[index : index + 1], cache, kv_layer, blocks, length - 1)[0]
    return attended
