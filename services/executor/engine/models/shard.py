"""Which part of a decoder one rank of a group computes: some heads with their KV, and some columns of the MLP.

Embedding, norms and output matrix are whole on every rank that uses them. What a rank's attention and MLP give is a
part of a sum over all ranks.
"""

from __future__ import annotations

import msgspec

from baton.core.errors import Incompatible
from baton.services.executor.engine.models.config import DecoderConfig


class Shard(msgspec.Struct, frozen=True, array_like=True):
    """Rank `rank` of `num_ranks`."""

    rank: int = 0
    num_ranks: int = 1

    @property
    def is_whole(self) -> bool:
        return self.num_ranks == 1

    @property
    def is_first(self) -> bool:
        """The first rank adds the biases of what is summed, and samples."""
        return self.rank == 0

    def part(self, length: int) -> slice:
        """This rank's part of `length` rows or columns, which the number of ranks divides."""
        size = length // self.num_ranks
        return slice(self.rank * size, (self.rank + 1) * size)


WHOLE = Shard()


def check_divides(config: DecoderConfig, num_ranks: int) -> None:
    """Raises Incompatible, with the numbers, for a model that so many ranks cannot share evenly."""
    parts = {
        "attention heads": config.num_heads,
        "KV heads": config.num_kv_heads,
        "MLP columns": config.intermediate_size,
    }
    odd = [f"{count} {name}" for name, count in parts.items() if count % num_ranks]
    if odd:
        raise Incompatible(f"device.num_ranks = {num_ranks}: does not divide the model's {' and its '.join(odd)}")


def shard_config(config: DecoderConfig, shard: Shard) -> DecoderConfig:
    """The decoder that one rank computes. Raises Incompatible."""
    check_divides(config, shard.num_ranks)
    return msgspec.structs.replace(
        config,
        num_heads=config.num_heads // shard.num_ranks,
        num_kv_heads=config.num_kv_heads // shard.num_ranks,
        intermediate_size=config.intermediate_size // shard.num_ranks,
    )
