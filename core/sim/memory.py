"""KV memory of a simulated executor: what each slot holds in each plane, who wrote it, and whose each block is.

Plane 0 of a slot holds the digest of the token prefix up to it, every further plane a word that belongs to that digest:
a slot of which only some planes were written does not read as a whole one. Slots are counted over the whole memory:
`block * block_size + offset`.
"""

from __future__ import annotations

from random import Random
from typing import Any

from baton.core.layout import KvLayout
from baton.core.sim import token_model

Words = list[list[int]]  #: [plane][position]


def sim_layout(block_size: int, num_kv_layers: int, checkpoint_blocks: int = 1) -> KvLayout:
    """Eight bytes for each slot and plane. With a checkpoint every so many blocks it stands for one with recurrent
    layers, of whose states those are saved (P1)."""
    return KvLayout(num_kv_layers, 1, 1, "float64", block_size, "sim-digest-1", "sim-tokens-1", checkpoint_blocks)


def plane_word(digest: int, plane: int) -> int:
    """What a slot of that digest holds in that plane."""
    return token_model.check_word(digest ^ (plane - 1)) if plane else digest


class Chain:
    """The right words for a sequence of tokens, position by position: what memory must hold for it."""

    __slots__ = ("num_planes", "words")

    def __init__(self, num_planes: int, tokens: list[int]) -> None:
        self.num_planes = num_planes
        self.words: Words = [[] for _ in range(num_planes)]
        for token in tokens:
            self.append(token)

    def copy(self) -> Chain:
        other = Chain(self.num_planes, [])
        other.words = [list(plane) for plane in self.words]
        return other

    def append(self, token: int) -> None:
        first = self.words[0]
        digest = token_model.next_digest(first[-1] if first else token_model.EMPTY_DIGEST, token)
        for plane, words in enumerate(self.words):
            words.append(plane_word(digest, plane))

    def digest(self, num_tokens: int) -> int:
        """Of the first `num_tokens` tokens."""
        return self.words[0][num_tokens - 1] if num_tokens else token_model.EMPTY_DIGEST


class KvMemory:
    """See the module. `versions[block]` counts writes; `lives[block]` counts the uses that a block was given to."""

    def __init__(self, layout: KvLayout, num_blocks: int, rng: Random) -> None:
        self.block_size = layout.block_size
        self.num_blocks = num_blocks
        self.num_planes = layout.num_planes
        num_slots = num_blocks * layout.block_size
        self.planes: Words = [[rng.getrandbits(64) for _ in range(num_slots)] for _ in range(self.num_planes)]
        self.writers: list[Any] = ["nobody"] * num_slots
        self.versions = [0] * num_blocks
        self.lives = [0] * num_blocks
        self.grantees: list[Any] = [None] * num_blocks  #: who may write a block from outside, None: nobody
        self.num_incoming = [0] * num_blocks  #: unsettled writes from outside that end here
        self.num_outgoing = [0] * num_blocks  #: unsettled writes that read here
        self._poison = rng.getrandbits(63)

    def holds(self, block: int, first: int, end: int, words: Words, position: int) -> bool:
        """Whether slots `[first, end)` of the block hold `words` from `position` on, in every plane."""
        start, stop = block * self.block_size + first, block * self.block_size + end
        last = position + end - first
        pairs = zip(self.planes, words, strict=True)
        return all([plane[start:stop] == right[position:last] for plane, right in pairs])

    def write(self, block: int, first: int, end: int, words: Words, position: int, writer: Any) -> None:
        """Put `words` from `position` on into slots `[first, end)` of the block."""
        start, stop = block * self.block_size + first, block * self.block_size + end
        last = position + end - first
        for plane, right in zip(self.planes, words, strict=True):
            plane[start:stop] = right[position:last]
        self.writers[start:stop] = [writer] * (stop - start)
        self.versions[block] += 1

    def write_slot(self, block: int, slot: int, digest: int, writer: Any) -> None:
        where = block * self.block_size + slot
        for index, plane in enumerate(self.planes):
            plane[where] = plane_word(digest, index)
        self.writers[where] = writer
        self.versions[block] += 1

    def read_digest(self, block: int, slot: int) -> int:
        """The digest that a reader gets: another number where the planes do not belong together."""
        where = block * self.block_size + slot
        digest = self.planes[0][where]
        fault = 0
        for index in range(1, self.num_planes):
            fault ^= self.planes[index][where] ^ plane_word(digest, index)
        return digest ^ fault

    def copy_block(self, source: int, destination: int, num_slots: int) -> None:
        a, b = source * self.block_size, destination * self.block_size
        for plane in self.planes:
            plane[b : b + num_slots] = plane[a : a + num_slots]
        self.writers[b : b + num_slots] = self.writers[a : a + num_slots]
        self.versions[destination] += 1

    def poison(self, block: int, first: int, end: int, reason: Any) -> None:
        """Nothing that was in these slots may be read again."""
        start, stop = block * self.block_size + first, block * self.block_size + end
        for plane in self.planes:
            for where in range(start, stop):
                self._poison += 0x9E3779B97F4A7C15
                plane[where] = self._poison & token_model.MASK_64
        self.writers[start:stop] = [reason] * (stop - start)
        self.versions[block] += 1

    def cut(self, block: int, slots: tuple[int, int], planes: tuple[int, int]) -> Words:
        """A copy of these slots in these planes."""
        start, stop = block * self.block_size + slots[0], block * self.block_size + slots[1]
        return [self.planes[plane][start:stop] for plane in range(*planes)]

    def paste(self, block: int, slots: tuple[int, int], planes: tuple[int, int], words: Words, writer: Any) -> None:
        start, stop = block * self.block_size + slots[0], block * self.block_size + slots[1]
        for plane, values in zip(range(*planes), words, strict=True):
            self.planes[plane][start:stop] = values
        self.writers[start:stop] = [writer] * (stop - start)
        self.versions[block] += 1

    def story(self, block: int) -> str:
        """Who wrote the slots of a block."""
        start = block * self.block_size
        return f"block {block} was written by {self.writers[start : start + self.block_size]}"
