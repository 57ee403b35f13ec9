"""Scores of a prompt's tokens: the model's own log-probabilities at temperature 1, like those of outputs."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch

from baton.core.executor.steps import PromptScores
from baton.services.executor.engine.devices.base import DeviceBroken
from baton.services.executor.engine.sampler import log_softmax, most_likely
from baton.services.executor.engine.sequences import DeviceSequence

ROWS_AT_ONCE = 32  #: whose logits are in memory together: 16 MiB of float32 for a vocabulary of 128 Ki tokens


def score_prompt(
    sequence: DeviceSequence, start: int, hidden: torch.Tensor, logits_of: Callable[[torch.Tensor], torch.Tensor]
) -> PromptScores:
    """The scores of the tokens after positions `[start, start + num_scores)` of the sequence.

    `hidden` [num_scores, hidden_size] are these positions' rows after the last layer; `logits_of` makes
    [num_rows, vocab_size] of a few of them. Raises DeviceBroken when the largest logit of a row is not finite.
    """
    num_scores, first = len(hidden), start + 1
    num_top = sequence.sampling.num_prompt_logprobs
    logprobs = np.empty(num_scores, dtype="<f4")
    top_ids, top_logprobs = bytearray(), bytearray()
    for index in range(0, num_scores, ROWS_AT_ONCE):
        rows = logits_of(hidden[index : index + ROWS_AT_ONCE]).to(torch.float64).numpy()
        if not np.isfinite(rows.max(axis=1)).all():  # NaN if there is one
            raise DeviceBroken("the model's logits are not finite")
        for position, row in enumerate(rows, index):
            values = log_softmax(row)
            top = most_likely(values, num_top)
            logprobs[position] = values[sequence.tokens[first + position]]
            top_ids += top.astype("<i4").tobytes()
            top_logprobs += values[top].astype("<f4").tobytes()
    return PromptScores(first, logprobs.tobytes(), bytes(top_ids), bytes(top_logprobs))
