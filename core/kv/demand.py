"""How many blocks a request needs: one answer for the scheduler that spends credit and the executor that allocates."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple


class Demand(NamedTuple):
    """Blocks that an attempt takes at once."""

    prefill_blocks: int  #: on a prefill executor: the prompt
    decode_blocks: int  #: where it decodes: prompt and growth reserve, over all choices
    life_blocks: int  #: where it decodes, at its longest
    num_slots: int  #: where it decodes: one for each choice


def blocks_for(num_tokens: int, block_size: int) -> int:
    return -(-num_tokens // block_size)


def choice_blocks(num_tokens: int, num_new: int, block_size: int) -> int:
    """Blocks of one choice that computes KV for the prompt and `num_new` outputs; the last output needs none."""
    return blocks_for(num_tokens + max(num_new - 1, 0), block_size)


@lru_cache(maxsize=1024)  # asked for each executor whenever one is chosen: most have the same block size and reserve
def demand(num_tokens: int, max_new_tokens: int, num_choices: int, growth_reserve: int, block_size: int) -> Demand:
    """Full blocks of the prompt are shared by all choices, everything after them is each choice's own."""
    shared = num_tokens // block_size
    reserve = min(max_new_tokens, growth_reserve)

    def total(num_new: int) -> int:
        return shared + num_choices * (choice_blocks(num_tokens, num_new, block_size) - shared)

    return Demand(blocks_for(num_tokens, block_size), total(reserve), total(max_new_tokens), num_choices)
