"""The device's own record of its sequences: tokens and block tables, which plans extend but never repeat."""

from __future__ import annotations

from array import array
from threading import Lock

import numpy as np

from baton.core.executor.steps import NewSequence, StepItem, StepPlan
from baton.core.wire.sampling import SamplingParams
from baton.services.executor.engine.devices.base import PlanRejected
from baton.services.executor.engine.grammar_masks import GrammarMasks, SequenceGrammar


def unpack_int32(data: bytes) -> array[int]:
    """Packed little-endian int32 as an array of Python ints."""
    values: array[int] = array("i")
    values.frombytes(data)
    return values


class DeviceSequence:
    """Tokens `[0, num_tokens)` are known; block `i` of the table holds positions from `i * block_size` on."""

    __slots__ = ("blocks", "choice", "grammar", "num_prompt_tokens", "sampling", "seq_id", "tokens")

    def __init__(self, new: NewSequence) -> None:
        self.seq_id: int = new.seq_id
        self.tokens: array[int] = unpack_int32(new.tokens)  #: prompt, then outputs
        self.num_prompt_tokens: int = new.num_prompt_tokens
        self.sampling: SamplingParams = new.sampling
        self.choice: int = new.choice
        self.blocks: array[int] = array("i")  #: block table
        self.grammar: SequenceGrammar | None = None  #: what its outputs must match

    @property
    def grammar_failed(self) -> bool:
        """Whether its last sample, if it has had one, is no valid continuation of its outputs."""
        return self.grammar is not None and self.grammar.has_failed

    def tokens_as_numpy(self) -> np.ndarray:
        """int32[num_tokens]; a copy, so that the array may grow."""
        return np.array(self.tokens, dtype=np.int32)


class SequenceTable:
    """All sequences that later plans may name. `apply` checks a whole plan before it changes anything.

    Threads of two lanes may call `apply` at once. What it returns is the lane's own until the step is done: a sequence
    is named by one lane at a time.

    `samples`: whether tokens are chosen here, so that grammars are of interest.
    """

    def __init__(self, block_size: int, num_blocks: int, vocab_size: int, *, samples: bool = True) -> None:
        self._block_size = block_size
        self._num_blocks = num_blocks
        self._vocab_size = vocab_size
        self._samples = samples
        self._by_id: dict[int, DeviceSequence] = {}
        self._lock = Lock()  #: held while the table is read or changed, never while anything is computed
        self.masks: GrammarMasks | None = None  #: without it, plans with grammars are rejected

    def __len__(self) -> int:
        return len(self._by_id)

    def __getitem__(self, seq_id: int) -> DeviceSequence:
        return self._by_id[seq_id]

    def apply(self, plan: StepPlan) -> list[DeviceSequence]:
        """Drop, add and extend as the plan says; the sequences of its items, in the plan's order.

        Begins to find the token masks that the plan's samples need.
        """
        added = {new.seq_id: DeviceSequence(new) for new in plan.new}
        with self._lock:
            return self._apply(plan, added)

    def _apply(self, plan: StepPlan, added: dict[int, DeviceSequence]) -> list[DeviceSequence]:
        self._check(plan, added)
        for seq_id in plan.dropped:
            del self._by_id[seq_id]
        self._by_id.update(added)
        for sequence in added.values():
            if sequence.sampling.grammar and self.masks is not None:
                sequence.grammar = self.masks.follow(
                    sequence.sampling.grammar, sequence.tokens, sequence.num_prompt_tokens
                )
        sequences = []
        for item in plan.items:
            sequence = self._by_id[item.seq_id]
            sequence.blocks.frombytes(item.new_block_ids)
            sequences.append(sequence)
            if item.num_samples and sequence.grammar is not None:
                sequence.grammar.look_ahead()
        return sequences

    def _check(self, plan: StepPlan, added: dict[int, DeviceSequence]) -> None:
        dropped = set(plan.dropped)
        for seq_id in plan.dropped:
            if seq_id not in self._by_id:
                raise PlanRejected(f"step {plan.step_id} drops unknown sequence {seq_id}")
        for seq_id, sequence in added.items():
            if seq_id in self._by_id and seq_id not in dropped:
                raise PlanRejected(f"step {plan.step_id} adds sequence {seq_id} twice")
            if len(sequence.tokens) and not 0 <= min(sequence.tokens) <= max(sequence.tokens) < self._vocab_size:
                raise PlanRejected(f"sequence {seq_id} has a token outside [0, {self._vocab_size})")
            if sequence.sampling.grammar and self.masks is None and self._samples:
                raise PlanRejected(f"sequence {seq_id} has a grammar: the model's tokenizer cannot be used with one")
        for copy in plan.copies:
            if not (0 <= copy.source < self._num_blocks and 0 <= copy.destination < self._num_blocks):
                raise PlanRejected(f"step {plan.step_id} copies a block outside [0, {self._num_blocks})")
            if not 0 < copy.num_slots <= self._block_size:
                raise PlanRejected(f"step {plan.step_id} copies {copy.num_slots} slots")
        named: set[int] = set()
        for item in plan.items:
            known = added.get(item.seq_id)
            if known is None and item.seq_id not in dropped:
                known = self._by_id.get(item.seq_id)
            if known is None or item.seq_id in named:
                raise PlanRejected(f"step {plan.step_id} names sequence {item.seq_id}, unknown or named twice")
            named.add(item.seq_id)
            self._check_item(item, known)

    def _check_item(self, item: StepItem, sequence: DeviceSequence) -> None:
        end = item.start + item.num_tokens
        new_blocks = unpack_int32(item.new_block_ids) if item.new_block_ids else ()
        if item.num_tokens < 1 or item.start < 0 or end > len(sequence.tokens):
            raise PlanRejected(f"sequence {item.seq_id}: [{item.start}, {end}) of {len(sequence.tokens)} tokens")
        if item.num_samples and end != len(sequence.tokens):
            raise PlanRejected(f"sequence {item.seq_id}: sampling at {end} of {len(sequence.tokens)} known tokens")
        if item.num_scores and not 0 < item.num_scores <= min(end, sequence.num_prompt_tokens - 1) - item.start:
            raise PlanRejected(f"sequence {item.seq_id}: {item.num_scores} scores of tokens after {item.start}")
        if len(new_blocks) and not 0 <= min(new_blocks) <= max(new_blocks) < self._num_blocks:
            raise PlanRejected(f"sequence {item.seq_id}: a block outside [0, {self._num_blocks})")
        if (len(sequence.blocks) + len(new_blocks)) * self._block_size < end:
            raise PlanRejected(f"sequence {item.seq_id}: {end} tokens do not fit its block table")
