"""A device that needs no model: its KV memory holds digests, and the next token is a hash of what it reads there.

Memory is a real byte buffer of the geometry that the layout says (two 64-bit planes, 16 bytes a token), so real
transports move it. A step that reads a stale, foreign or half-written slot anywhere in its prefix gives wrong tokens.
Same arithmetic as the simulator's device (`baton.core.sim.token_model`).
"""

from __future__ import annotations

import time
from collections.abc import Sequence

import msgspec
import numpy as np

from baton.core.executor.steps import CopyBlock, ItemResult, SampledToken, StepItem, StepPlan, TokenLogprobs
from baton.core.layout import KvLayout
from baton.core.sim import token_model
from baton.core.wire.tokens import PromptScores, pack_scores
from baton.services.executor.engine.devices.host import HostQueue, step_result
from baton.services.executor.engine.grammar_masks import GrammarMasks
from baton.services.executor.engine.sequences import DeviceSequence, SequenceTable

FAKE_VOCAB_SIZE = 260  #: as the tiny model: 256 bytes and four specials
NUM_DRAWN_TOKENS = 256  #: tokens that the model answers with: bytes only


def fake_layout(block_size: int) -> KvLayout:
    """One KV layer with one 8-byte word per plane: the digest in the first plane, its check word in the second."""
    return KvLayout(1, 1, 1, "float64", block_size, "fake-digest-1", "bytes-1")


class FakeDevice(HostQueue):
    """See the module. `end_one_in` > 0: a sequence with stop tokens draws its first one about that often.

    `checks_memory`: a step writes the slots of all its tokens; one that samples reads every slot of its sequence, as
    attention would. Without it a step touches no memory and answers at once, for load tests of everything else: the
    next token is a hash of the last one. `token_time_s` and `step_time_s` make steps last as if they were work.
    """

    def __init__(
        self,
        num_blocks: int,
        block_size: int = 64,
        *,
        vocab_size: int = FAKE_VOCAB_SIZE,
        max_model_len: int = 1 << 20,
        end_one_in: int = 0,
        checks_memory: bool = True,
        step_time_s: float = 0.0,
        token_time_s: float = 0.0,
    ) -> None:
        super().__init__()
        self.layout = fake_layout(block_size)
        self.num_blocks = num_blocks
        self.vocab_size = vocab_size
        self.max_model_len = max_model_len
        self._num_drawn = min(NUM_DRAWN_TOKENS, vocab_size)
        self._end_one_in = end_one_in
        self._checks_memory = checks_memory
        self._step_time_s = step_time_s
        self._token_time_s = token_time_s
        self.kv = np.zeros((num_blocks, 2, block_size), dtype=np.uint64)  #: [block][plane][slot]
        self._sequences = SequenceTable(block_size, num_blocks, vocab_size)

    @property
    def kv_base_address(self) -> int:
        return self.kv.ctypes.data

    def use_grammars(self, masks: GrammarMasks) -> None:
        self._sequences.masks = masks

    def use_lanes(self, lane_cores: Sequence[frozenset[int]]) -> None:
        """Any number, on whatever core there is."""

    def enter_lane(self, lane: int) -> None:
        """Lanes differ in nothing."""

    def launch(self, plan: StepPlan) -> None:
        started_at = time.perf_counter()
        decoding, sequences = self._sequences.apply(plan)
        for copy in plan.copies:
            self._copy(copy)
        drawn = [self._decode(sequence) for sequence in decoding]
        items = [self._compute(item, sequence) for item, sequence in zip(plan.items, sequences, strict=True)]
        duration_s = self._step_time_s + plan.num_tokens * self._token_time_s
        if duration_s > 0:
            time.sleep(max(0.0, started_at + duration_s - time.perf_counter()))
        num_decodes = len(decoding) + sum(item.num_tokens == 1 for item in plan.items)
        num_context = sum([len(sequence.tokens) - 1 for sequence in decoding])
        result = step_result(plan.step_id, items, num_decodes, decoding, drawn, num_context)
        self.store(msgspec.structs.replace(result, duration_s=time.perf_counter() - started_at))

    def close(self) -> None:
        """Nothing runs after `launch`; memory goes with the object."""

    def _copy(self, copy: CopyBlock) -> None:
        self.kv[copy.destination, :, : copy.num_slots] = self.kv[copy.source, :, : copy.num_slots]

    def _read(self, sequence: DeviceSequence, position: int) -> int:
        """The digest that memory holds for `position`; that of the empty prefix before the first."""
        if position < 0:
            return token_model.EMPTY_DIGEST
        block, slot = divmod(position, self.layout.block_size)
        planes = self.kv[sequence.blocks[block]]
        return token_model.read_digest(int(planes[0, slot]), int(planes[1, slot]))

    def _decode(self, sequence: DeviceSequence) -> SampledToken:
        end = len(sequence.tokens)
        digest = sequence.tokens[-1]
        if self._checks_memory:
            digest = self._write(sequence, end - 1, end) ^ self._prefix_fault(sequence, end)
        (sampled,) = self._sample(sequence, digest, end - sequence.num_prompt_tokens, 1)
        sequence.tokens.append(sampled.token)
        return sampled

    def _compute(self, item: StepItem, sequence: DeviceSequence) -> ItemResult:
        end = item.start + item.num_tokens
        digest = self._write(sequence, item.start, end) if self._checks_memory else sequence.tokens[end - 1]
        scores = self._score(sequence, item) if item.num_scores else None
        if not item.num_samples:
            return ItemResult(item.seq_id, item.num_tokens, (), scores)
        if self._checks_memory:
            digest ^= self._prefix_fault(sequence, end)
        sampled = self._sample(sequence, digest, end - sequence.num_prompt_tokens, item.num_samples)
        sequence.tokens.append(sampled[0].token)
        return ItemResult(item.seq_id, item.num_tokens, sampled, scores, sequence.grammar_failed)

    def _write(self, sequence: DeviceSequence, start: int, end: int) -> int:
        """The slots of these positions; returns the digest that memory holds in the last one."""
        digest = self._read(sequence, start - 1)
        for position in range(start, end):
            digest = token_model.next_digest(digest, sequence.tokens[position])
            block, slot = divmod(position, self.layout.block_size)
            planes = self.kv[sequence.blocks[block]]
            planes[0, slot] = digest
            planes[1, slot] = token_model.check_word(digest)
        return self._read(sequence, end - 1)

    def _prefix_fault(self, sequence: DeviceSequence, end: int) -> int:
        """0 if slots `[0, end)` hold the chain of digests of the sequence's tokens; another number if not."""
        planes = self.kv[np.array(sequence.blocks[: self.layout.blocks_for(end)])]
        digests = planes[:, 0].reshape(-1)[:end]
        checks = planes[:, 1].reshape(-1)[:end]
        tokens = sequence.tokens_as_numpy()[:end].astype(np.uint64)
        previous = np.empty_like(digests)
        previous[0] = token_model.EMPTY_DIGEST
        previous[1:] = digests[:-1]
        chain = _mix_64(previous + (tokens + np.uint64(1)) * np.uint64(token_model.GOLDEN_GAMMA))
        faults = (chain ^ digests) | (_mix_64(digests ^ np.uint64(token_model.CHECK_SALT)) ^ checks)
        return int(np.bitwise_or.reduce(faults))

    def _score(self, sequence: DeviceSequence, item: StepItem) -> PromptScores:
        """Of the tokens after the item's first positions, each by what memory holds at the position before it."""
        num_top = sequence.sampling.num_prompt_logprobs
        rows = []
        for position in range(item.start, item.start + item.num_scores):
            digest, token = self._read(sequence, position), sequence.tokens[position + 1]
            rows.append(token_model.token_scores(digest, token, num_top, self._num_drawn))
        return pack_scores(item.start + 1, rows)

    def _sample(self, sequence: DeviceSequence, digest: int, position: int, count: int) -> tuple[SampledToken, ...]:
        params = sequence.sampling
        logprobs = None if params.num_logprobs < 0 else TokenLogprobs(0.0, (), ())
        mask = None if sequence.grammar is None else sequence.grammar.mask()
        sampled = []
        for choice in range(sequence.choice, sequence.choice + count):
            token = token_model.next_token(digest, params.seed, position, choice, self._num_drawn)
            may_end = bool(params.stop_token_ids) and position + 1 >= params.min_tokens
            if may_end and token_model.is_end(digest, params.seed, position, choice, self._end_one_in):
                token = params.stop_token_ids[0]
            if mask is not None and not mask.allows(token):
                allowed = mask.token_ids()
                token = int(allowed[token % len(allowed)])
            sampled.append(SampledToken(choice, token, logprobs))
        return tuple(sampled)


def _mix_64(values: np.ndarray) -> np.ndarray:
    """`token_model.mix_64` of each of uint64[n]; arithmetic wraps."""
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed: np.ndarray = values ^ (values >> np.uint64(31))
    return mixed
