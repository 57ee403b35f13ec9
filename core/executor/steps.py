"""The contract between the machine that plans steps and the device that computes them: plain data, no tensors.

The device keeps, for each sequence, its tokens (prompt, then what was sampled) and its block table; a plan carries
only what changes. So it only names those that decode: each computes the one token that has no KV yet, and samples the
next one. Where that stands both sides count for themselves, and compare what it comes to.

A device computes the plans of a lane strictly in the order of their `step_id`, so a plan may decode a token that the
plan before it is still sampling. Where there are two lanes, plans of one run beside plans of the other, in any order: a
sequence is in one lane at a time, and changes it only when all that was launched with it is done.
"""

from __future__ import annotations

import msgspec

from baton.core.wire.sampling import SamplingParams
from baton.core.wire.tokens import PromptScores, SampledToken, TokenLogprobs

__all__ = [
    "MAIN_LANE",
    "PREFILL_LANE",
    "CopyBlock",
    "ItemResult",
    "NewBlocks",
    "NewSequence",
    "PromptScores",
    "SampledToken",
    "StepItem",
    "StepPlan",
    "StepResult",
    "TokenLogprobs",
]

MAIN_LANE = 0  #: of all steps, or of those that decode where prompts have a lane of their own
PREFILL_LANE = 1


class NewSequence(msgspec.Struct, frozen=True, array_like=True):
    """A sequence that the device has not seen. `tokens` is packed little-endian int32: prompt, then known outputs."""

    seq_id: int  #: unique in this executor's life
    tokens: bytes  #: int32[num_prompt_tokens + num_output_tokens]
    num_prompt_tokens: int  #: the client's prompt; what follows in `tokens` are outputs (resumed, or P's first token)
    sampling: SamplingParams
    choice: int  #: which of the request's `n` answers; sampling is keyed by (seed, position of the output, choice)


class NewBlocks(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Blocks of a sequence that decodes, appended to its block table before the step."""

    seq_id: int
    new_block_ids: bytes  #: int32[k]


class StepItem(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A part of a prompt: compute KV of positions `[start, start + num_tokens)`; sample after the last one if asked.

    With `num_samples` k > 0 the logits of the last position give k tokens, for choices `choice … choice + k − 1`;
    the token of the sequence's own choice is appended to its tokens on the device.
    With `num_scores` k > 0 the logits of the first k positions score the tokens at `[start + 1, start + k + 1)`, each
    with the `num_prompt_logprobs` alternatives of the sequence's sampling parameters.
    """

    seq_id: int
    start: int
    num_tokens: int
    num_samples: int
    new_block_ids: bytes  #: int32[k], appended to the sequence's block table before the step
    num_scores: int = 0


class CopyBlock(msgspec.Struct, frozen=True, array_like=True):
    """Copy the first `num_slots` slots of block `source` to block `destination`, before the items of the step."""

    source: int
    destination: int
    num_slots: int


class StepPlan(msgspec.Struct, frozen=True, array_like=True):
    """All that one step computes. Order inside the device: dropped, new, block tables, copies, decodes and items."""

    step_id: int
    dropped: tuple[int, ...]  #: seq_ids that no later plan will name, nor any plan of another lane that is not done
    new: tuple[NewSequence, ...]
    copies: tuple[CopyBlock, ...]
    items: tuple[StepItem, ...]  #: parts of prompts
    decodes: tuple[int, ...] = ()  #: seq_ids; the same object as in the lane's last step, if they are the same ones
    new_blocks: tuple[NewBlocks, ...] = ()  #: of the few decodes whose next token needs a block
    num_context: int = 0  #: sum over the decodes of the positions that have KV after the step; else it is no plan
    lane: int = MAIN_LANE

    @property
    def num_tokens(self) -> int:
        return len(self.decodes) + sum([item.num_tokens for item in self.items])


class ItemResult(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What the device really did for one item: its own count, never copied from the plan."""

    seq_id: int
    num_computed: int  #: tokens whose KV this step wrote
    sampled: tuple[SampledToken, ...]
    scores: PromptScores | None = None  #: of the item's `num_scores`, from position `start + 1` on
    grammar_failed: bool = False  #: the sequence's grammar cannot go on: what was sampled only fills its place


class StepResult(msgspec.Struct, frozen=True, array_like=True):
    """What the device really did, by its own count."""

    step_id: int
    items: tuple[ItemResult, ...]  #: in the order of the plan
    duration_s: float
    padded_batch: int = 0  #: rows that the device computed for decode, padding included
    decoded: tuple[int, ...] = ()  #: the token of each of the plan's decodes, in its order
    num_context: int = 0  #: as in the plan, by where it really wrote
    logprobs: tuple[tuple[int, TokenLogprobs], ...] = ()  #: by seq_id, of the decodes that ask for them
    grammar_failed: tuple[int, ...] = ()  #: seq_ids of decodes whose grammar cannot go on, as in `ItemResult`
