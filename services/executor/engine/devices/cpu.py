"""The CPU device: computes each step inside `launch`, with torch and the native kernels.

Two lanes compute at once in two threads: weights are read only, a step's tensors are its own, slots of KV memory belong
to the step that names them. What they share and change is the table of sequences, which has a lock.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence

import msgspec
import torch

from baton.core.executor.steps import ItemResult, PromptScores, StepItem, StepPlan, StepResult
from baton.core.layout import NUM_PLANES
from baton.services.executor.engine.batch import Batch, build_batch
from baton.services.executor.engine.collective import RankGroup
from baton.services.executor.engine.devices.host import HostQueue, step_result
from baton.services.executor.engine.devices.part import CpuPart
from baton.services.executor.engine.grammar_masks import GrammarMasks
from baton.services.executor.engine.kernels.native import choose_team, is_supported
from baton.services.executor.engine.kv_cache import TORCH_DTYPES, KvCache
from baton.services.executor.engine.models.decoder import Decoder
from baton.services.executor.engine.models.native_decoder import NativeDecoder
from baton.services.executor.engine.models.shard import WHOLE
from baton.services.executor.engine.models.weights import DecoderWeights
from baton.services.executor.engine.prompt_scores import score_prompt
from baton.services.executor.engine.sampler import sample_rows
from baton.services.executor.engine.sequences import DeviceSequence, SequenceTable


class CpuDevice(HostQueue):
    """One decoder, its weights and its KV memory on the host; or one rank's part of them.

    A rank's sampling is that of the first one: others only follow.
    """

    def __init__(self, part: CpuPart, group: RankGroup | None = None) -> None:
        super().__init__()
        folder, config, layout, num_blocks, num_threads = part
        self._lane_cores: tuple[frozenset[int], ...] = ()
        self._say_progress: Callable[[int, int], None] | None = None
        self._told_layers = frozenset(layout.layers_to_tell())
        self.layout = layout
        self.num_blocks = num_blocks
        self.vocab_size = config.vocab_size
        self.max_model_len = config.max_model_len
        self.cache = KvCache(layout, num_blocks)
        shard, add_up = (WHOLE, None) if group is None else (group.shard, group.add_up)
        weights = DecoderWeights(folder, config, TORCH_DTYPES[layout.dtype], shard)
        self.decoder: Decoder | NativeDecoder
        self.is_native = is_supported(layout, config.num_heads) and not config.logit_round_bits
        if self.is_native:
            self.decoder = NativeDecoder(config, weights, self.cache, num_threads, add_up=add_up)
        else:
            self.decoder = Decoder(config, weights, self.cache, add_up)
        self._sequences = SequenceTable(layout.block_size, num_blocks, config.vocab_size, samples=shard.is_first)

    @property
    def kv_base_address(self) -> int:
        return self.cache.base_address

    def use_grammars(self, masks: GrammarMasks) -> None:
        self._sequences.masks = masks

    def use_lanes(self, lane_cores: Sequence[frozenset[int]]) -> None:
        self._lane_cores = tuple(lane_cores)

    def tell_progress(self, say: Callable[[int, int], None]) -> None:
        self._say_progress = say

    def enter_lane(self, lane: int) -> None:
        """Kernels have a team of threads for each lane; OpenMP, which torch uses, has one for each thread that calls
        it. Both are made at the first call, and their threads begin on the cores that the caller has then."""
        if not self._lane_cores:
            return
        cores = self._lane_cores[lane]
        os.sched_setaffinity(0, cores)  # of this thread
        choose_team(lane, len(cores))
        if not self.is_native:
            torch.set_num_threads(len(cores))  # of this thread, and of threads that have not computed yet

    def launch(self, plan: StepPlan) -> None:
        started_at = time.perf_counter()
        decoding, sequences = self._sequences.apply(plan)
        self.begin(plan)
        with torch.inference_mode():
            for copy in plan.copies:
                self.cache.copy(copy)
            if plan.items or plan.decodes:
                batch = build_batch(decoding, plan.items, sequences, self.layout.block_size)
                result = self._compute(plan, decoding, sequences, batch)
            else:
                result = StepResult(plan.step_id, (), 0.0)
        self.store(msgspec.structs.replace(result, duration_s=time.perf_counter() - started_at))

    def close(self) -> None:
        """Nothing runs after `launch`; memory goes with the object."""

    def begin(self, plan: StepPlan) -> None:
        """Of ranks: a plan that was accepted here is about to be computed."""

    def forward(self, plan: StepPlan, batch: Batch) -> torch.Tensor:
        """All layers of the step."""
        return self.decoder.forward(batch, self._progress(plan.step_id, batch))

    def _progress(self, step_id: int, batch: Batch) -> Callable[[int], None]:
        """What is to be called after each layer. A step of less than a block has nothing to send early."""
        say, told = self._say_progress, self._told_layers
        if say is None or len(batch.tokens) < self.layout.block_size:
            return _say_nothing

        def wrote(num_kv_layers: int) -> None:
            if num_kv_layers in told:
                say(step_id, num_kv_layers * NUM_PLANES)

        return wrote

    def _compute(
        self, plan: StepPlan, decoding: list[DeviceSequence], sequences: list[DeviceSequence], batch: Batch
    ) -> StepResult:
        """All but the step's duration."""
        items = plan.items
        hidden = self.forward(plan, batch)
        scores = self._score(items, sequences, batch, hidden)
        logits = self.decoder.logits(hidden[torch.from_numpy(batch.sample_rows)])
        sampling = [(sequence, item.num_samples) for item, sequence in zip(items, sequences, strict=True)]
        sampling = [(sequence, 1) for sequence in decoding] + [(s, count) for s, count in sampling if count]
        drawn = sample_rows(logits, [sequence for sequence, _ in sampling], [count for _, count in sampling])
        by_sequence = {}
        for (sequence, _), tokens in zip(sampling, drawn, strict=True):
            sequence.tokens.append(tokens[0].token)
            by_sequence[sequence.seq_id] = tokens
        done = [
            ItemResult(
                item.seq_id,
                item.num_tokens,
                by_sequence.get(item.seq_id, ()),
                scores.get(item.seq_id),
                sequence.grammar_failed,
            )
            for item, sequence in zip(items, sequences, strict=True)
        ]
        num_context = int(batch.decode_lengths[: len(decoding)].sum())
        decoded = [tokens[0] for tokens in drawn[: len(decoding)]]
        return step_result(plan.step_id, done, len(batch.decode_rows), decoding, decoded, num_context)

    def _score(
        self, items: tuple[StepItem, ...], sequences: list[DeviceSequence], batch: Batch, hidden: torch.Tensor
    ) -> dict[int, PromptScores]:
        """By `seq_id`, of the items that ask for scores."""
        scores = {}
        for item, sequence, row in zip(items, sequences, batch.item_rows, strict=True):
            if item.num_scores:
                rows = hidden[row : row + item.num_scores]
                scores[item.seq_id] = score_prompt(sequence, item.start, rows, self.decoder.logits)
        return scores


def _say_nothing(num_kv_layers: int) -> None:
    """Nobody asked how far the step is."""
