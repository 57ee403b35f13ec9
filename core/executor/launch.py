"""From a draft to a launched step, and from the step's result back to the sequences."""

from __future__ import annotations

from array import array
from collections import deque

from baton.core.errors import InvariantViolated, Reason
from baton.core.executor import gate, ownership, placing, tokens, writer
from baton.core.executor.cohorts import Cohorts
from baton.core.executor.events import EXIT_STEP_FAILED, EXIT_UNPROVEN, Exit, Launch, StepAdvanced, StepFailed
from baton.core.executor.sequence import Compute, Kind, Sequence, SequenceGroup
from baton.core.executor.state import ExecutorState, LaunchedStep
from baton.core.executor.steps import (
    MAIN_LANE,
    CopyBlock,
    ItemResult,
    NewBlocks,
    NewSequence,
    SampledToken,
    StepItem,
    StepPlan,
    StepResult,
)
from baton.core.executor.tokens import HASH_BYTES
from baton.core.executor.walk import Draft, DraftItem
from baton.core.wire.messages import Record


class _Builder:
    """Collects the parts of one plan while its draft is committed."""

    def __init__(self) -> None:
        self.new: list[NewSequence] = []
        self.copies: list[CopyBlock] = []
        self.items: list[StepItem] = []
        self.new_blocks: list[NewBlocks] = []
        self.owned: list[Sequence] = []
        self.borrowed: list[bytes] = []
        self.num_context = 0
        self.num_activated = 0
        self.num_prompt_tokens = 0
        self.num_samples = 0


def launch(state: ExecutorState, draft: Draft, lane: int = MAIN_LANE) -> None:
    """Commit the draft: from here on the step owns what it may touch."""
    builder = _Builder()
    if lane == MAIN_LANE:  # what is copied is decoded from, in this lane
        _take_copies(state, builder)
    for item in draft.items:  # before anything is allocated: an allocation may evict what the walk has found
        if item.num_hits:
            _take_over_hits(state, item, builder)
    _commit_decodes(state, draft.decodes, builder)
    for item in draft.items:
        _commit_chunk(state, item, builder)
    plan = StepPlan(
        state.next_step_id(),
        tuple(state.dropped),
        tuple(builder.new),
        tuple(builder.copies),
        tuple(builder.items),
        _names(state, draft.decodes),
        tuple(builder.new_blocks),
        builder.num_context,
        lane,
    )
    state.dropped = []
    prompts = [item.sequence for item in draft.items]
    counts = builder.num_activated, builder.num_prompt_tokens, builder.num_samples
    step = LaunchedStep(plan, draft.decodes, prompts, builder.owned, builder.borrowed, *counts)
    state.lanes[lane].append(step)
    gate.note_launch(state, step)
    state.counters["steps_launched"] += 1
    state.counters[f"{step.kind}_steps_launched"] += 1
    if draft.stopped_by is not None:
        state.counters[f"walk_{draft.stopped_by.name.lower()}"] += 1
    state.out.append(Launch(plan))


def on_step_advanced(state: ExecutorState, event: StepAdvanced) -> None:
    """H8: what of the step's KV is written can be sent while it computes the rest."""
    step = _lane_whose_next_is(state, event.step_id)[0]
    for sequence, item in zip(step.prompts, step.plan.items, strict=True):
        if sequence.compute is not Compute.ENDED:
            writer.advance_planes(state, sequence.group, item.start + item.num_tokens, event.num_planes)


def on_step_done(state: ExecutorState, cohorts: Cohorts, result: StepResult) -> None:
    """Apply one result, in whatever lane and however its completion was noticed. A result that does not match its plan
    is a broken step."""
    lane = _lane_whose_next_is(state, result.step_id)
    step = lane[0]
    if not _matches(step, result):
        on_step_failed(state, StepFailed(result.step_id, "collect", True, "the result is not what the plan asked"))
        return
    lane.popleft()
    state.counters["steps_done"] += 1
    state.counters[f"{step.kind}_steps_done"] += 1
    cohorts.record(step, result)
    state.pace.record(step, result.duration_s)
    gate.note_done(state, step, result)
    state.counters["tokens_sampled"] += step.num_samples
    _apply_decodes(state, step, result)
    for sequence, item, done in zip(step.prompts, step.plan.items, result.items, strict=True):
        _apply_chunk(state, sequence, item, done)
    for ids in step.borrowed:  # before the sequences: a borrowed block is the child of one that they hold
        state.memory.pool.release(ids)
    for sequence in step.owned:
        if sequence.num_owners > 1:  # as nearly all have: the next step is launched
            sequence.num_owners -= 1
        else:
            ownership.disown(state, sequence)


def _lane_whose_next_is(state: ExecutorState, step_id: int) -> deque[LaunchedStep]:
    """Steps of one lane are done in order; those of two in any."""
    for lane in state.lanes:
        if lane and lane[0].plan.step_id == step_id:
            return lane
    raise InvariantViolated(f"step {step_id} is done, but it was not the next one")


def on_step_failed(state: ExecutorState, event: StepFailed) -> None:
    """O4: proven: fail its requests and stop. O5: unproven: end at once, free nothing, nobody is told anything else."""
    if not event.proven:
        state.stopped = True
        state.out.append(Exit(EXIT_UNPROVEN, f"step {event.step_id}, {event.stage}: {event.detail}"))
        return
    for step in state.steps:
        for sequence in step.sequences:
            group = sequence.group
            if not group.is_over:
                ownership.note_failure(state, group, Reason.STEP_FAILED, event.stage)
                ownership.end_group(state, group)
    state.stopped = True
    state.out.append(Exit(EXIT_STEP_FAILED, f"step {event.step_id}, {event.stage}: {event.detail}"))


# ---- committing


def _take_copies(state: ExecutorState, builder: _Builder) -> None:
    """Owner counts pass from the list to the step."""
    for pending in state.copies:
        builder.copies.append(pending.copy)
        builder.owned += [pending.source, pending.destination]
    state.copies = []


def _commit_decodes(state: ExecutorState, sequences: list[Sequence], builder: _Builder) -> None:
    """One token of each. What is done for every token of every answer: nothing that could be done elsewhere."""
    num_context = 0
    for sequence in sequences:
        start = sequence.num_scheduled
        if start >= sequence.free_until or start == sequence.num_prompt_tokens:
            _extend_table(state, sequence, builder)
        sequence.num_scheduled = start = start + 1
        num_context += start
        sequence.num_owners += 1
    builder.owned += sequences
    builder.num_context = num_context
    builder.num_samples += len(sequences)


def _extend_table(state: ExecutorState, sequence: Sequence, builder: _Builder) -> None:
    """It decodes for the first time, or needs a block, or both."""
    new_blocks = b""
    if sequence.needs_block:
        new_blocks = state.memory.pool.allocate(1)
        sequence.block_ids.frombytes(new_blocks)
        sequence.note_blocks()
    if sequence.num_scheduled == sequence.num_prompt_tokens:
        builder.num_activated += 1
        if not sequence.on_device:
            new_blocks = _introduce(state, sequence, builder)
    if new_blocks:
        builder.new_blocks.append(NewBlocks(sequence.seq_id, new_blocks))


def _names(state: ExecutorState, decodes: list[Sequence]) -> tuple[int, ...]:
    """Their seq_ids: the same object while the batch stays the same."""
    if not decodes:
        return ()
    if decodes != state.batch:
        state.batch, state.batch_ids = decodes, tuple([sequence.seq_id for sequence in decodes])
    return state.batch_ids


def _commit_chunk(state: ExecutorState, item: DraftItem, builder: _Builder) -> None:
    """A part of a prompt, or all of it."""
    sequence, num_tokens = item.sequence, item.num_tokens
    new_blocks = b"" if sequence.on_device else _introduce(state, sequence, builder)
    builder.items.append(
        StepItem(sequence.seq_id, item.start, num_tokens, item.num_samples, new_blocks, item.num_scores)
    )
    sequence.num_scheduled = item.start + num_tokens
    if item.num_samples:
        builder.num_samples += item.num_samples
    ownership.own(sequence)
    builder.owned.append(sequence)
    builder.num_prompt_tokens += num_tokens
    _note_chunk(state, item)


def _note_launched(state: ExecutorState, group: SequenceGroup) -> None:
    """A step of the group is launched for the first time. A receiver counts the steps that went before it meanwhile."""
    if "launched" in group.marks.at:
        return
    group.marks.first("launched", state.now)
    if group.kind is Kind.DECODE:
        num_steps = state.counters["steps_launched"] - group.marks.steps_at_landed
        state.histograms["landed_to_scheduled_steps"].observe(num_steps)
        state.note_time("landed_to_scheduled_seconds", group.marks, "landed", "launched")


def _note_chunk(state: ExecutorState, item: DraftItem) -> None:
    """What a part of a prompt changes besides."""
    sequence = item.sequence
    if sequence.compute is Compute.WAITING:
        sequence.move(Compute.RUNNING)
    writer.ask_for_receiver(state, sequence.group)
    if sequence.num_scheduled >= sequence.group.work.num_tokens:
        state.leave_queue(sequence.seq_id)
    else:
        state.gate.advanced(sequence.seq_id, state.now)
    state.note_demand(sequence)
    if item.num_samples == 1 and sequence.group.kind is Kind.RUN and not state.overlaps:
        # the next step of the lane may decode what this one samples; another lane's may not
        state.running.setdefault(sequence.seq_id, sequence)


def _introduce(state: ExecutorState, sequence: Sequence, builder: _Builder) -> bytes:
    """The device sees it for the first time; returns its blocks, all of which are new to it."""
    work = sequence.group.work
    builder.new.append(
        NewSequence(sequence.seq_id, sequence.tokens.tobytes(), work.num_client_tokens, work.sampling, sequence.choice)
    )
    sequence.on_device = True
    _note_launched(state, sequence.group)
    return sequence.block_ids.tobytes()


def _take_over_hits(state: ExecutorState, item: DraftItem, builder: _Builder) -> None:
    """Put the index's blocks in place of the sequence's own leading ones; copy the last where it is written again."""
    sequence, pool = item.sequence, state.memory.pool
    hits = array("i", pool.acquire(bytes(sequence.hashes[: item.num_hits * HASH_BYTES]), item.num_hits))
    kept = item.num_hits - 1 if item.copies_last_hit else item.num_hits
    pool.release(sequence.block_ids[:kept].tobytes())
    if item.copies_last_hit:
        builder.copies.append(CopyBlock(hits[kept], sequence.block_ids[kept], state.layout.block_size - 1))
        builder.borrowed.append(hits[kept:].tobytes())
    sequence.block_ids = hits[:kept] + sequence.block_ids[kept:]
    sequence.num_published = kept
    sequence.chain_intact = True
    sequence.num_computed = min(item.num_hits * state.layout.block_size, item.start)
    sequence.group.num_cached = item.start
    ownership.count_prompt_tokens(state, sequence.group, sequence.group.work.num_tokens - item.start)


# ---- applying


def _matches(step: LaunchedStep, result: StepResult) -> bool:
    """C27: the executor's own counts against the plan."""
    if len(result.items) != len(step.prompts):
        return False
    if (len(result.decoded), result.num_context) != (len(step.decodes), step.plan.num_context):
        return False
    if result.grammar_failed or result.logprobs:
        told = [*result.grammar_failed, *[seq_id for seq_id, _ in result.logprobs]]
        if not set(told) <= set(step.plan.decodes):
            return False
    for item, done in zip(step.plan.items, result.items, strict=True):
        if done.seq_id != item.seq_id or done.num_computed != item.num_tokens or len(done.sampled) != item.num_samples:
            return False
        if (done.scores is not None or item.num_scores) and not _has_scores(item, done):
            return False
    return True


def _has_scores(item: StepItem, done: ItemResult) -> bool:
    if done.scores is None:
        return item.num_scores == 0
    return (done.scores.first, done.scores.num_tokens) == (item.start + 1, item.num_scores)


def _apply_decodes(state: ExecutorState, step: LaunchedStep, result: StepResult) -> None:
    """They go before the prompts. A request whose grammar failed fails as a whole, however far its other choices
    are."""
    for seq_id in result.grammar_failed:
        sequence = state.sequences[seq_id]  # still there: the step owns it
        if sequence.compute is not Compute.ENDED:
            placing.fail(state, sequence.group, Reason.GRAMMAR_FAILED)
    tokens.accept_decoded(state, step.decodes, result.decoded, dict(result.logprobs))


def _apply_chunk(state: ExecutorState, sequence: Sequence, item: StepItem, done: ItemResult) -> None:
    """A part of a prompt is computed."""
    if sequence.compute is Compute.ENDED:
        return
    group, num_computed = sequence.group, item.start + done.num_computed
    sequence.num_computed = num_computed
    ownership.count_prompt_tokens(state, group, group.work.num_tokens - sequence.num_computed)
    state.counters["prompt_tokens_computed"] += done.num_computed
    if done.scores is not None:
        group.score_parts.append(done.scores)
    if num_computed >= (sequence.num_published + 1) * sequence.block_size:
        tokens.publish_computed(state, sequence)
    if done.grammar_failed:  # the request fails as a whole, however far its other choices are
        placing.fail(state, group, Reason.GRAMMAR_FAILED)
    elif num_computed < sequence.num_prompt_tokens:
        state.gate.computed(sequence.seq_id, state.now)
        writer.advance(state, group)
    else:
        _apply_prompt_end(state, sequence, done)


def _apply_prompt_end(state: ExecutorState, sequence: Sequence, done: ItemResult) -> None:
    """The prompt is computed and every choice has its first token."""
    group = sequence.group
    group.marks.first("computed", state.now)
    tokens.join_prompt_scores(group)
    if group.kind is Kind.RUN:
        tokens.begin_decode(state, group, done.sampled)
        return
    sequence.move(Compute.COMPUTED)
    state.parked_tokens += group.work.num_tokens
    group.first_tokens = done.sampled
    if all([_accept_first(state, sequence, sampled) for sampled in done.sampled]):
        writer.finish_at_first_token(state, group)
        ownership.end_group(state, group)
    else:
        writer.advance(state, group)


def _accept_first(state: ExecutorState, sequence: Sequence, sampled: SampledToken) -> bool:
    """The writing end says the first tokens of all choices; True at an end."""
    group, work = sequence.group, sequence.group.work
    tokens.note_first_token(state, group)
    finish = work.sampling.finish(sampled.token, work.num_prior + 1)
    scores = tokens.scores_with(group, sampled.choice, work.num_prior)
    record = Record(group.work_id, sampled.choice, work.num_prior, (sampled,), finish, group.num_cached, scores)
    state.outbox.begin(work.router, record)
    return bool(finish)
