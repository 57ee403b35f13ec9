"""What follows from computed KV and sampled tokens: publication, first tokens, further tokens, ends."""

from __future__ import annotations

from baton.core.executor import joining, ownership
from baton.core.executor.sequence import Compute, Kind, Sequence, SequenceGroup
from baton.core.executor.state import ExecutorState, PendingCopy
from baton.core.executor.steps import CopyBlock, SampledToken, TokenLogprobs
from baton.core.ids import Life
from baton.core.kv.block_hash import hash_chain
from baton.core.wire.messages import Record
from baton.core.wire.tokens import PromptScores, join_scores

HASH_BYTES = 16


def extend_hashes(state: ExecutorState, sequence: Sequence) -> None:
    """Hash the full blocks whose tokens became known since."""
    size = state.layout.block_size
    known = len(sequence.hashes) // HASH_BYTES
    full = len(sequence.tokens) // size
    if full > known:
        parent = bytes(sequence.hashes[-HASH_BYTES:]) if known else sequence.group.work.root
        fresh = sequence.tokens[known * size : full * size].tobytes()
        sequence.hashes += hash_chain(state.hash_key, parent, fresh, size)


def publish_computed(state: ExecutorState, sequence: Sequence) -> None:
    """G3: a block enters the index when the KV of its last slot is computed or has landed, never by count.

    Blocks behind the last saved state are of no use to others, so they are not (P1). Where another sequence's block has
    the hash already, this one's chain stops: the index stays closed under prefixes.
    """
    end = state.layout.anchor(sequence.num_computed // state.layout.block_size)
    if end <= sequence.num_published or not sequence.chain_intact:
        return
    extend_hashes(state, sequence)
    pool, ids = state.memory.pool, sequence.block_ids
    while sequence.num_published < end:
        index = sequence.num_published
        block_hash = bytes(sequence.hashes[index * HASH_BYTES : (index + 1) * HASH_BYTES])
        if not pool.publish(ids[index], block_hash, ids[index - 1] if index else -1):
            sequence.chain_intact = False
            return
        sequence.num_published += 1
        state.published += block_hash


def accept_decoded(
    state: ExecutorState, sequences: list[Sequence], decoded: tuple[int, ...], logprobs: dict[int, TokenLogprobs]
) -> None:
    """One token of each sequence. What is done for every token of every answer: nothing that could be done elsewhere.
    Tokens that bring something besides come last, so that most are rows."""
    ended, now, block_size, outbox = Compute.ENDED, state.now, state.layout.block_size, state.outbox
    others: list[tuple[Sequence, int]] = []
    router: Life | None = None
    for sequence, token in zip(sequences, decoded, strict=True):
        if sequence.compute is ended:
            continue
        known = sequence.tokens
        sequence.num_computed = position = len(known)
        if not position % block_size:
            publish_computed(state, sequence)
        if position >= sequence.plain_until or token in sequence.stop_token_ids:
            others.append((sequence, token))
            continue
        known.append(token)
        sequence.last_token_at = now
        if sequence.router is not router:
            router = sequence.router
            rows = outbox.rows(router)
        request_id, attempt, choice = sequence.row_head
        if rows is not None:
            rows += (request_id, attempt, choice, position - sequence.first_output, token)
        else:
            sampled = SampledToken(choice, token)
            outbox.add_token(sequence.router, sequence.work_id, choice, position - sequence.first_output, sampled, "")
    for sequence, token in others:
        if accept_token(state, sequence, token, logprobs.get(sequence.seq_id)):
            ownership.end_sequence(state, sequence)


def accept_token(
    state: ExecutorState, sequence: Sequence, token: int, logprobs: TokenLogprobs | None = None, cached: int = -1
) -> str:
    """Append one token, whatever it brings, and tell the router; returns its finish. The caller ends the sequence."""
    group, choice, position = sequence.group, sequence.choice, len(sequence.tokens)
    sampling, offset = group.work.sampling, position - sequence.first_output
    sequence.last_token_at = state.now
    sequence.tokens.append(token)
    if logprobs is not None:
        sequence.logprobs[position] = logprobs
    sampled, finish = SampledToken(choice, token, logprobs), sampling.finish(token, offset + 1)
    if position > sequence.num_prompt_tokens:
        state.outbox.add_token(sequence.router, sequence.work_id, choice, offset, sampled, finish)
        return finish
    note_first_token(state, group)
    group.marks.at.setdefault("last_token", state.now)  # the closing line says which was the last
    record = Record(sequence.work_id, choice, offset, (sampled,), finish, cached, scores_with(group, choice, offset))
    state.outbox.begin(sequence.router, record)
    sequence.plain_until = 0 if sampling.num_logprobs >= 0 else sequence.max_len - 1
    return finish


def note_first_token(state: ExecutorState, group: SequenceGroup) -> None:
    """The group's first; whoever computed the prompt counts how long it took."""
    if "first_token" not in group.marks.at:
        group.marks.first("first_token", state.now)
        if group.kind is not Kind.DECODE:
            state.note_time("admitted_to_first_token_seconds", group.marks, "admitted", "first_token")


def join_prompt_scores(group: SequenceGroup) -> None:
    """The prompt is computed: its scores are whole, if they are wanted."""
    if group.work.wants_prompt_scores:
        group.prompt_scores = join_scores(group.score_parts)
        group.score_parts = []


def scores_with(group: SequenceGroup, choice: int, offset: int) -> PromptScores | None:
    """What goes with the record of the choice from `offset` on: whoever says the first choice's first token says the
    prompt's scores with it, so that a router that has the token has them too."""
    return group.prompt_scores if (choice, offset) == (group.work.first_choice, group.work.num_prior) else None


def record_from(group: SequenceGroup, choice: int, offset: int) -> Record | None:
    """What this executor knows of the choice's output from `offset` on, or None if that is nothing."""
    work = group.work
    index = choice - work.first_choice
    if len(group.sequences) != work.num_choices or not 0 <= index < work.num_choices:
        return None  # a prefill executor's only sequence stands for all choices; D says their first tokens again
    sequence = group.sequences[index]
    known = _outputs(group, sequence)
    finish = work.sampling.finish(known[-1].token, work.num_prior + len(known)) if known else ""
    known = known[max(0, offset - work.num_prior) :]
    if not known or offset < work.num_prior:
        return None
    cached = group.num_cached if offset == work.num_prior and group.kind is not Kind.DECODE else -1
    scores = scores_with(group, choice, offset)
    return Record(group.work_id, choice, offset, known, finish, cached, scores)


def _outputs(group: SequenceGroup, sequence: Sequence) -> tuple[SampledToken, ...]:
    """Of this attempt, on this executor."""
    if group.kind is Kind.PREFILL:
        return group.first_tokens
    first, choice, logprobs = sequence.num_prompt_tokens, sequence.choice, sequence.logprobs
    outputs = enumerate(sequence.tokens[first:], first)
    return tuple([SampledToken(choice, token, logprobs.get(position)) for position, token in outputs])


def begin_decode(state: ExecutorState, group: SequenceGroup, first_tokens: tuple[SampledToken, ...]) -> None:
    """The prompt's KV is here and each choice has its first token (G7): they decode from the next step on, or join the
    batch when it is their turn (W10)."""
    first = group.first
    publish_computed(state, first)
    for sequence in group.sequences[1:]:
        _share_prompt(state, first, sequence)
    cached = group.num_cached if group.kind is Kind.RUN else -1
    for sequence, sampled in zip(group.sequences, first_tokens, strict=True):
        if sequence.compute is Compute.ENDED:
            continue
        if sequence.compute is Compute.WAITING:
            sequence.move(Compute.RUNNING)
        if group.kind is Kind.DECODE:
            joining.arrive(state, sequence)
        else:
            joining.activate(state, sequence)
        if accept_token(state, sequence, sampled.token, sampled.logprobs, cached):
            ownership.end_sequence(state, sequence)


def _share_prompt(state: ExecutorState, first: Sequence, sibling: Sequence) -> None:
    """The sibling holds the prompt's full blocks together with the first, and gets a copy of the partial one."""
    if sibling.compute is Compute.ENDED:
        return
    size = state.layout.block_size
    num_tokens = first.group.work.num_tokens
    num_full = num_tokens // size
    shared = first.block_ids[:num_full]
    state.memory.pool.retain(shared.tobytes())
    sibling.block_ids = shared + sibling.block_ids
    sibling.note_blocks()
    sibling.num_computed = sibling.num_scheduled = num_tokens
    sibling.hashes = bytearray(first.hashes[: num_full * HASH_BYTES])
    sibling.num_published = min(first.num_published, num_full)
    sibling.chain_intact = first.chain_intact
    if num_tokens % size:
        copy = CopyBlock(first.block_ids[num_full], sibling.block_ids[num_full], num_tokens % size)
        ownership.own(first)
        ownership.own(sibling)
        state.copies.append(PendingCopy(copy, first, sibling))
