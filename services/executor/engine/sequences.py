"""The device's own record of its sequences: tokens and block tables, which plans extend but never repeat."""

from __future__ import annotations

from array import array
from threading import Lock

import numpy as np

from baton.core.executor.steps import NewBlocks, NewSequence, StepItem, StepPlan
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

    def apply(self, plan: StepPlan) -> tuple[list[DeviceSequence], list[DeviceSequence]]:
        """Drop, add and extend as the plan says; the sequences that decode and those of its items, in the plan's order.

        Begins to find the token masks that the plan's samples need.
        """
        added = {new.seq_id: DeviceSequence(new) for new in plan.new}
        with self._lock:
            return self._apply(plan, added)

    def _apply(
        self, plan: StepPlan, added: dict[int, DeviceSequence]
    ) -> tuple[list[DeviceSequence], list[DeviceSequence]]:
        self._check(plan, added)
        for seq_id in plan.dropped:
            del self._by_id[seq_id]
        self._by_id.update(added)
        for sequence in added.values():
            if sequence.sampling.grammar and self.masks is not None:
                sequence.grammar = self.masks.follow(
                    sequence.sampling.grammar, sequence.tokens, sequence.num_prompt_tokens
                )
        decoding = [self._by_id[seq_id] for seq_id in plan.decodes]
        sequences = [self._by_id[item.seq_id] for item in plan.items]
        extended: list[NewBlocks | StepItem] = [*plan.new_blocks, *plan.items]
        for each in extended:
            self._by_id[each.seq_id].blocks.frombytes(each.new_block_ids)
        sampling = [sequence for item, sequence in zip(plan.items, sequences, strict=True) if item.num_samples]
        for sequence in (*decoding, *sampling):
            if sequence.grammar is not None:
                sequence.grammar.look_ahead()
        return decoding, sequences

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
        names = [*plan.decodes, *[item.seq_id for item in plan.items]]
        known: dict[int, DeviceSequence] = {}
        for seq_id in names:
            named = added.get(seq_id)
            if named is None and seq_id not in dropped:
                named = self._by_id.get(seq_id)
            if named is None or seq_id in known:
                raise PlanRejected(f"step {plan.step_id} names sequence {seq_id}, unknown or named twice")
            known[seq_id] = named
        for item in plan.items:
            self._check_item(item, known[item.seq_id])
        self._check_decodes(plan, known)

    def _check_decodes(self, plan: StepPlan, known: dict[int, DeviceSequence]) -> None:
        new_blocks = {new.seq_id: new.new_block_ids for new in plan.new_blocks}
        if not new_blocks.keys() <= set(plan.decodes) or len(new_blocks) < len(plan.new_blocks):
            raise PlanRejected(f"step {plan.step_id} extends a sequence that does not decode, or one twice")
        if sum([len(known[seq_id].tokens) for seq_id in plan.decodes]) != plan.num_context:
            raise PlanRejected(f"step {plan.step_id} decodes to {plan.num_context} positions, others are known")
        for seq_id in plan.decodes:
            sequence = known[seq_id]
            if not len(sequence.tokens):
                raise PlanRejected(f"sequence {seq_id}: decoding after no token")
            self._check_fits(seq_id, len(sequence.tokens), new_blocks.get(seq_id, b""), sequence)

    def _check_item(self, item: StepItem, sequence: DeviceSequence) -> None:
        end = item.start + item.num_tokens
        if item.num_tokens < 1 or item.start < 0 or end > len(sequence.tokens):
            raise PlanRejected(f"sequence {item.seq_id}: [{item.start}, {end}) of {len(sequence.tokens)} tokens")
        if item.num_samples and end != len(sequence.tokens):
            raise PlanRejected(f"sequence {item.seq_id}: sampling at {end} of {len(sequence.tokens)} known tokens")
        if item.num_scores and not 0 < item.num_scores <= min(end, sequence.num_prompt_tokens - 1) - item.start:
            raise PlanRejected(f"sequence {item.seq_id}: {item.num_scores} scores of tokens after {item.start}")
        self._check_fits(item.seq_id, end, item.new_block_ids, sequence)

    def _check_fits(self, seq_id: int, end: int, new_block_ids: bytes, sequence: DeviceSequence) -> None:
        new_blocks = unpack_int32(new_block_ids) if new_block_ids else ()
        if len(new_blocks) and not 0 <= min(new_blocks) <= max(new_blocks) < self._num_blocks:
            raise PlanRejected(f"sequence {seq_id}: a block outside [0, {self._num_blocks})")
        if (len(sequence.blocks) + len(new_blocks)) * self._block_size < end:
            raise PlanRejected(f"sequence {seq_id}: {end} tokens do not fit its block table")
