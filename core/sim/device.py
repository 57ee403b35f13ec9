"""The simulated compute device: its memory, its sequences and what a plan does to them (`lanes` says when).

The device keeps its own sequences, tokens and block tables as `baton.core.executor.steps` says and trusts nothing: a
plan that names what it does not know, a prefix that memory does not hold, a block that somebody may still write: each
is a violation. Where a sequence decodes, it counts itself: in a plan at its launch by the plans before it, in one that
it computes by the tokens that it knows. A wrong prefix also gives a wrong token, as it would in the real world.
"""

from __future__ import annotations

from array import array
from typing import NamedTuple

from baton.core.executor.steps import CopyBlock, ItemResult, NewSequence, SampledToken, StepItem, StepPlan, StepResult
from baton.core.sim import token_model
from baton.core.sim.lanes import Footprint, Lanes
from baton.core.sim.memory import Chain, KvMemory
from baton.core.sim.process import Process
from baton.core.sim.step_time.fuzzed import StepTime
from baton.core.wire.tokens import PromptScores, pack_scores

NUM_DRAWN_TOKENS = 256  #: the model answers with tokens below this


class Model(NamedTuple):
    """The model that is no model, as far as it has knobs."""

    end_one_in: int  #: a sequence with stop tokens ends about once in so many tokens; 0: never
    strict: bool = True  #: a wrong read is a violation at once, not only by its wrong token
    tells_progress: bool = False  #: it says what of a step's KV is written before the step ends


Holder = tuple[StepItem, StepPlan, int]  #: the item that names a block, its plan, the block's index in the table


class _Sequence:
    __slots__ = ("blocks", "chain", "choice", "num_prompt_tokens", "sampling", "seen", "seq_id", "tokens")

    def __init__(self, new: NewSequence, tokens: list[int], chain: Chain) -> None:
        self.seq_id = new.seq_id
        self.tokens = tokens
        self.chain = chain
        self.num_prompt_tokens = new.num_prompt_tokens
        self.sampling = new.sampling
        self.choice = new.choice
        self.blocks: list[int] = []
        self.seen: list[int] = []  #: the version of each block at which its content was right for this sequence


def _decodes(plan: StepPlan, starts: list[tuple[int, int]]) -> list[StepItem]:
    """What the plan's decodes come to, by sequence and where it stands."""
    blocks = {new.seq_id: new.new_block_ids for new in plan.new_blocks}
    return [StepItem(seq_id, start, 1, 1, blocks.get(seq_id, b"")) for seq_id, start in starts]


def unpack(data: bytes) -> list[int]:
    values = array("i")
    values.frombytes(data)
    return values.tolist()


class SimDevice:
    """One per executor process; dies with it."""

    def __init__(self, process: Process, memory: KvMemory, step_time: StepTime, model: Model) -> None:
        self.process = process
        self.memory = memory
        self.lanes = Lanes(process, step_time, self.compute, memory.num_planes if model.tells_progress else 0)
        self._env = process.env
        self._model = model
        self._sequences: dict[int, _Sequence] = {}
        self._tables: dict[int, list[int]] = {}  #: block tables as they are after the last *launched* plan
        self._ends: dict[int, int] = {}  #: the same of positions that have KV
        self._chains: dict[bytes, Chain] = {}

    @property
    def is_idle(self) -> bool:
        return self.lanes.is_idle

    # ---- launching

    def launch(self, plan: StepPlan) -> None:
        """The plan goes to the compute thread of its lane, which may have to wait for the one before."""
        items = self._launched_items(plan)
        if not self.lanes.is_broken:
            self._claim_blocks(plan, items)
        self.lanes.launch(self._footprint(plan, items))

    def _launched_items(self, plan: StepPlan) -> list[StepItem]:
        """Of the sequences that are known; computing the plan tells of others."""
        for seq_id in plan.dropped:
            self._ends.pop(seq_id, None)
        for new in plan.new:
            self._ends[new.seq_id] = len(unpack(new.tokens)) - 1
        decodes = [(seq_id, self._ends[seq_id]) for seq_id in plan.decodes if seq_id in self._ends]
        items = [*_decodes(plan, decodes), *plan.items]
        for item in items:
            self._ends[item.seq_id] = item.start + item.num_tokens
        return items

    def _footprint(self, plan: StepPlan, items: list[StepItem]) -> Footprint:
        size = self.memory.block_size
        reads = {copy.source for copy in plan.copies}
        writes = {copy.destination for copy in plan.copies}
        for item in items:
            table = self._tables.get(item.seq_id, ())
            reads.update(table[: -(-(item.start + item.num_tokens) // size)])
            writes.update(table[item.start // size : -(-(item.start + item.num_tokens) // size)])
        named = [*plan.decodes, *[item.seq_id for item in plan.items], *[new.seq_id for new in plan.new]]
        return Footprint(plan, frozenset(named), frozenset(reads), frozenset(writes))

    def _claim_blocks(self, plan: StepPlan, items: list[StepItem]) -> None:
        """From its launch on, a plan owns the blocks that it appends, and nobody else may still use them."""
        for seq_id in plan.dropped:
            self._tables.pop(seq_id, None)
        for new in plan.new:
            self._tables[new.seq_id] = []
        for copy in plan.copies:
            self._claim(copy.destination, 0, f"step {plan.step_id} copies block {copy.source} to it", ())
        for item in items:
            table = self._tables.get(item.seq_id)
            if table is None:
                continue  # computing the plan tells
            if item.new_block_ids:
                blocks = unpack(item.new_block_ids)
                table.extend(blocks)
                copied = [copy.destination for copy in plan.copies]
                self._check_no_double(item.seq_id, table)
                first_new = len(table) - len(blocks)
                for index, block in enumerate(blocks, first_new):
                    if not 0 <= block < self.memory.num_blocks:
                        self._env.fail("plan", f"block {block} of {self.memory.num_blocks}")
                    first = max(0, item.start - index * self.memory.block_size)
                    if first < self.memory.block_size and block not in copied:
                        self._claim(block, first, f"step {plan.step_id} of sequence {item.seq_id}", (item, plan, index))
                    self.memory.grantees[block] = None
            self._check_no_writer(item, table)

    def _check_no_double(self, seq_id: int, table: list[int]) -> None:
        if len(set(table)) != len(table):
            self._env.fail("a block is in a table once", f"sequence {seq_id} of {self.process.identity}: {table}")

    def _check_no_writer(self, item: StepItem, table: list[int]) -> None:
        incoming = self.memory.num_incoming
        for block in table:
            if incoming[block]:
                self._env.fail(
                    "no compute under an open write",
                    f"{self.process.identity} computes sequence {item.seq_id} with block {block}: it is being written",
                )

    def _claim(self, block: int, first_slot: int, what: str, holder: Holder | tuple[()]) -> None:
        """The block's slots from `first_slot` on are this use's own: what they held may go, nobody may need it."""
        memory = self.memory
        if memory.num_incoming[block]:
            self._env.fail("proof before reuse", f"{what}: block {block} of {self.process.identity} is being written")
        if holder and self._has_content(block, first_slot, *holder):
            return  # a cached block whose last token is computed again: everybody's content stays as it is
        if memory.num_outgoing[block] and first_slot == 0:
            self._env.fail("proof before reuse", f"{what}: block {block} of {self.process.identity} is being sent")
        memory.lives[block] += 1
        memory.poison(block, first_slot, memory.block_size, f"reused by {what}")

    def _has_content(self, block: int, first: int, item: StepItem, plan: StepPlan, index: int) -> bool:
        words = self._words_of(item.seq_id, plan)
        position = index * self.memory.block_size + first
        end = min(self.memory.block_size, first + len(words[0]) - position)
        return end > first and self.memory.holds(block, first, end, words, position)

    def _words_of(self, seq_id: int, plan: StepPlan) -> list[list[int]]:
        known = self._sequences.get(seq_id)
        if known is not None:
            return known.chain.words
        for queued in (*self.lanes.queued(), plan):
            for new in queued.new:
                if new.seq_id == seq_id:
                    return self._chain(new.tokens)[1].words
        return [[] for _ in range(self.memory.num_planes)]

    def _chain(self, tokens: bytes) -> tuple[list[int], Chain]:
        known = self._chains.get(tokens)
        unpacked = unpack(tokens)
        if known is None:
            known = self._chains[tokens] = Chain(self.memory.num_planes, unpacked)
        return unpacked, known

    # ---- computing

    def compute(self, plan: StepPlan, duration_s: float) -> StepResult:
        """Everything of the plan, in the device's order: dropped, new, copies, decodes and items."""
        for seq_id in plan.dropped:
            if self._sequences.pop(seq_id, None) is None:
                self._env.fail("plan", f"step {plan.step_id} drops unknown sequence {seq_id}")
        for new in plan.new:
            self._add(new)
        for copy in plan.copies:
            self._copy(copy)
        for seq_id in set(plan.decodes) - self._sequences.keys():
            self._env.fail("plan", f"step {plan.step_id} names unknown sequence {seq_id}")
        for seq_id in {new.seq_id for new in plan.new_blocks} - set(plan.decodes):
            self._env.fail("plan", f"step {plan.step_id} gives blocks to sequence {seq_id}, which does not decode")
        starts = [(seq_id, len(self._sequences[seq_id].tokens) - 1) for seq_id in plan.decodes]
        if sum([start + 1 for _, start in starts]) != plan.num_context:
            self._env.fail("plan", f"step {plan.step_id} decodes to {plan.num_context} positions, known are {starts}")
        decodes = _decodes(plan, starts)
        decoded = [self._compute(item, plan.step_id) for item in decodes]
        items = tuple([self._compute(item, plan.step_id) for item in plan.items])
        if len({item.seq_id for item in (*decodes, *plan.items)}) != len(decodes) + len(items):
            self._env.fail("plan", f"step {plan.step_id} names a sequence twice")
        return StepResult(
            plan.step_id,
            items,
            duration_s,
            len(decodes) + sum([item.num_tokens == 1 for item in plan.items]),
            tuple([done.sampled[0].token for done in decoded]),
            sum([item.start + done.num_computed for item, done in zip(decodes, decoded, strict=True)]),
            grammar_failed=tuple([done.seq_id for done in decoded if done.grammar_failed]),
        )

    def _add(self, new: NewSequence) -> None:
        if new.seq_id in self._sequences:
            self._env.fail("plan", f"sequence {new.seq_id} is added twice")
        tokens, chain = self._chain(new.tokens)
        self._sequences[new.seq_id] = _Sequence(new, tokens, chain.copy())

    def _copy(self, copy: CopyBlock) -> None:
        memory = self.memory
        if not (0 <= copy.source < memory.num_blocks and 0 <= copy.destination < memory.num_blocks):
            self._env.fail("plan", f"copies block {copy.source} to {copy.destination} of {memory.num_blocks}")
        if not 0 < copy.num_slots <= memory.block_size or memory.num_incoming[copy.source]:
            self._env.fail("plan", f"copies {copy.num_slots} slots of block {copy.source}")
        memory.copy_block(copy.source, copy.destination, copy.num_slots)

    def _compute(self, item: StepItem, step_id: int) -> ItemResult:
        sequence = self._sequences.get(item.seq_id)
        if sequence is None:
            self._env.fail("plan", f"step {step_id} names unknown sequence {item.seq_id}")
            raise AssertionError
        if item.new_block_ids:
            blocks = unpack(item.new_block_ids)
            sequence.blocks.extend(blocks)
            sequence.seen.extend([-1] * len(blocks))
        self._check_item(item, sequence)
        end = item.start + item.num_tokens
        is_right = self._read_prefix(sequence, item.start, f"step {step_id}")
        if is_right:
            self._write_right(sequence, item.start, end, step_id)
        else:
            self._write_what_was_read(sequence, item.start, end, step_id)
        scores = self._score(sequence, item) if item.num_scores else None
        if not item.num_samples:
            return ItemResult(item.seq_id, item.num_tokens, (), scores)
        last_block, last_slot = divmod(end - 1, self.memory.block_size)
        digest = self.memory.read_digest(sequence.blocks[last_block], last_slot)
        sampled = self._sample(sequence, digest, end - sequence.num_prompt_tokens, item.num_samples)
        sequence.tokens.append(sampled[0].token)
        sequence.chain.append(sampled[0].token)
        has_failed = token_model.is_dead_end(digest, sequence.sampling.seed, sequence.sampling.grammar)
        return ItemResult(item.seq_id, item.num_tokens, sampled, scores, has_failed)

    def _check_item(self, item: StepItem, sequence: _Sequence) -> None:
        end = item.start + item.num_tokens
        if item.num_tokens < 1 or item.start < 0 or end > len(sequence.tokens):
            self._env.fail("plan", f"sequence {item.seq_id}: [{item.start}, {end}) of {len(sequence.tokens)} tokens")
        if item.num_samples and end != len(sequence.tokens):
            self._env.fail("plan", f"sequence {item.seq_id}: samples at {end} of {len(sequence.tokens)} known tokens")
        if len(sequence.blocks) * self.memory.block_size < end:
            self._env.fail("plan", f"sequence {item.seq_id}: {end} tokens do not fit {len(sequence.blocks)} blocks")
        if item.num_scores and not 0 < item.num_scores <= min(end, sequence.num_prompt_tokens - 1) - item.start:
            self._env.fail("plan", f"sequence {item.seq_id}: {item.num_scores} scores of tokens after {item.start}")

    def _read_prefix(self, sequence: _Sequence, end: int, what: str) -> bool:
        """Whether memory holds the right words at every position before `end`."""
        memory, size = self.memory, self.memory.block_size
        for index in range(-(-end // size)):
            block = sequence.blocks[index]
            version = memory.versions[block]
            if version == sequence.seen[index]:
                continue
            position = index * size
            if not memory.holds(block, 0, min(size, end - position), sequence.chain.words, position):
                if self._model.strict:
                    self._env.fail(
                        "reads what it should",
                        f"{what} of {self.process.identity}, sequence {sequence.seq_id}, from {position} to {end}: "
                        f"{memory.story(block)}",
                    )
                return False
            if end - position >= size:
                sequence.seen[index] = version
        return True

    def _write_right(self, sequence: _Sequence, start: int, end: int, step_id: int) -> None:
        memory, size = self.memory, self.memory.block_size
        position = start
        while position < end:
            index, slot = divmod(position, size)
            stop = min(size, slot + end - position)
            writer = f"step {step_id} of sequence {sequence.seq_id}"
            memory.write(sequence.blocks[index], slot, stop, sequence.chain.words, position, writer)
            sequence.seen[index] = memory.versions[sequence.blocks[index]]
            position += stop - slot

    def _write_what_was_read(self, sequence: _Sequence, start: int, end: int, step_id: int) -> None:
        memory, size = self.memory, self.memory.block_size
        digest = token_model.EMPTY_DIGEST
        for position in range(end):
            block = sequence.blocks[position // size]
            if position >= start:
                writer = f"step {step_id} of sequence {sequence.seq_id}"
                digest = token_model.next_digest(digest, sequence.tokens[position])
                memory.write_slot(block, position % size, digest, writer)
            else:
                digest = token_model.mix_64(digest ^ memory.read_digest(block, position % size))

    def _score(self, sequence: _Sequence, item: StepItem) -> PromptScores:
        """Of the tokens after the item's first positions, each by what memory holds at the position before it."""
        num_top = sequence.sampling.num_prompt_logprobs
        rows = []
        for position in range(item.start, item.start + item.num_scores):
            block, slot = divmod(position, self.memory.block_size)
            digest = self.memory.read_digest(sequence.blocks[block], slot)
            token = sequence.tokens[position + 1]
            rows.append(token_model.token_scores(digest, token, num_top, NUM_DRAWN_TOKENS))
        return pack_scores(item.start + 1, rows)

    def _sample(self, sequence: _Sequence, digest: int, position: int, count: int) -> tuple[SampledToken, ...]:
        params = sequence.sampling
        may_end = bool(params.stop_token_ids) and position + 1 >= params.min_tokens
        sampled = []
        for choice in range(sequence.choice, sequence.choice + count):
            token = token_model.next_token(digest, params.seed, position, choice, NUM_DRAWN_TOKENS)
            if may_end and token_model.is_end(digest, params.seed, position, choice, self._model.end_one_in):
                token = params.stop_token_ids[0]
            sampled.append(SampledToken(choice, token))
        return tuple(sampled)
