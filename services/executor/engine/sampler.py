"""From logits to tokens, row by row: what one row draws never depends on the other rows.

The draw is an inverse distribution function over the tokens that survive top-k, top-p and min-p, in the order of
falling probability (ties: lower id first), at `keyed_uniform(seed, output position, choice)`, computed in float64.
A grammar leaves some tokens, in the order of their ids; bias and penalties are applied as ever, then the choice is made
among these alone.

Reported log-probabilities are those of the model's own logits at temperature 1, before any mask, bias or penalty.
"""

from __future__ import annotations

import numpy as np
import torch

from baton.core.executor.steps import SampledToken, TokenLogprobs
from baton.core.wire.sampling import SamplingParams
from baton.services.executor.engine.devices.base import DeviceBroken
from baton.services.executor.engine.philox import keyed_uniform
from baton.services.executor.engine.sequences import DeviceSequence
from baton.services.grammar.matcher import TokenMask

FIRST_CANDIDATES = 64  #: how many likely tokens are sorted before all of them are
LOWEST_LOGIT = np.finfo(np.float32).min  #: of a token that is forbidden, but may be all that the grammar leaves
COLUMN_LENGTH = 64  #: values whose largest stands for them when a border is looked for


def sample_rows(
    logits: torch.Tensor, sequences: list[DeviceSequence], counts: list[int]
) -> list[tuple[SampledToken, ...]]:
    """`counts[i]` choices from row i of [num_rows, vocab_size], whose input was the last token of `sequences[i]`."""
    if not sequences:
        return []
    best = logits.numpy().argmax(axis=1)  # the lowest id of ties, and NaN if there is one; four times torch's speed
    if not torch.isfinite(logits[torch.arange(len(best)), torch.from_numpy(best)]).all():
        raise DeviceBroken("the model's logits are not finite")
    return [
        _sample_row(row, greedy, sequence, count)
        for row, greedy, sequence, count in zip(logits, best.tolist(), sequences, counts, strict=True)
    ]


def _sample_row(row: torch.Tensor, best: int, sequence: DeviceSequence, count: int) -> tuple[SampledToken, ...]:
    params = sequence.sampling
    choices = range(sequence.choice, sequence.choice + count)
    position = len(sequence.tokens) - sequence.num_prompt_tokens
    mask = None if sequence.grammar is None else sequence.grammar.mask()
    if _is_modified(params, sequence):
        logits = _modify_logits(row.numpy().astype(np.float64), params, sequence)
        tokens = _choose(logits, mask, params, position, choices)
    elif params.temperature == 0 and (mask is None or mask.allows(best)):
        tokens = [best] * count
    else:
        tokens = _choose(row.numpy(), mask, params, position, choices)
    if params.num_logprobs < 0:
        return tuple(SampledToken(choice, token) for choice, token in zip(choices, tokens, strict=True))
    logprobs = log_softmax(row.numpy().astype(np.float64))
    top = most_likely(logprobs, params.num_logprobs)
    top_ids, top_values = tuple(top.tolist()), tuple(logprobs[top].tolist())
    return tuple(
        SampledToken(choice, token, TokenLogprobs(float(logprobs[token]), top_ids, top_values))
        for choice, token in zip(choices, tokens, strict=True)
    )


def _is_modified(params: SamplingParams, sequence: DeviceSequence) -> bool:
    return bool(params.logit_bias) or _forbids_ends(params, sequence) or _has_penalty(params)


def _has_penalty(params: SamplingParams) -> bool:
    return params.repetition_penalty != 1.0 or params.presence_penalty != 0.0 or params.frequency_penalty != 0.0


def _forbids_ends(params: SamplingParams, sequence: DeviceSequence) -> bool:
    """The token drawn now is output number `len(outputs) + 1`: an end is allowed from number `min_tokens` on."""
    return len(sequence.tokens) - sequence.num_prompt_tokens + 1 < params.min_tokens


def _modify_logits(logits: np.ndarray, params: SamplingParams, sequence: DeviceSequence) -> np.ndarray:
    """Bias, penalties and forbidden ends, in place on float64[vocab_size]."""
    for token, bias in params.logit_bias:
        logits[token] += bias
    if _has_penalty(params):
        _penalize(logits, params, sequence)
    if _forbids_ends(params, sequence):
        logits[[token for token in params.stop_token_ids if 0 <= token < len(logits)]] = -np.inf
    return logits


def _penalize(logits: np.ndarray, params: SamplingParams, sequence: DeviceSequence) -> None:
    tokens = sequence.tokens_as_numpy()
    if params.repetition_penalty != 1.0:
        seen = np.unique(tokens)
        values = logits[seen]
        logits[seen] = np.where(values > 0, values / params.repetition_penalty, values * params.repetition_penalty)
    outputs, times = np.unique(tokens[sequence.num_prompt_tokens :], return_counts=True)
    logits[outputs] -= params.presence_penalty + params.frequency_penalty * times


def _choose(
    logits: np.ndarray, mask: TokenMask | None, params: SamplingParams, position: int, choices: range
) -> list[int]:
    """A token for each choice from [vocab_size] logits, of those that the mask allows."""
    if mask is None:
        return _choose_any(logits, params, position, choices)
    allowed = mask.token_ids()
    # `min_tokens` may forbid the end where the grammar leaves nothing else: then the grammar decides.
    kept = _choose_any(np.maximum(logits[allowed], LOWEST_LOGIT), params, position, choices)
    return [int(token) for token in allowed[kept]]


def _choose_any(logits: np.ndarray, params: SamplingParams, position: int, choices: range) -> list[int]:
    if params.temperature == 0:
        return [int(logits.argmax())] * len(choices)
    uniforms = [keyed_uniform(params.seed, position, choice) for choice in choices]
    return draw(logits, params.top_k, params.top_p, params.min_p, uniforms, params.temperature)


def draw(
    logits: np.ndarray, top_k: int, top_p: float, min_p: float, uniforms: list[float], temperature: float = 1.0
) -> list[int]:
    """One token for each uniform number, from [vocab_size] logits of any float dtype; weights are float64.

    Sorts only as many of the likeliest tokens as the answer depends on, and weighs all only if it depends on their sum.
    """
    num_candidates = min(top_k or len(logits), len(logits))
    num_sorted = min(FIRST_CANDIDATES, num_candidates)
    largest = float(logits.max())
    mass = 0.0 if num_sorted == num_candidates else _mass(logits, num_candidates, largest, temperature)
    while True:
        order = most_likely(logits, num_sorted)
        sorted_weights = _weigh(logits[order], largest, temperature)
        cumulative = np.cumsum(sorted_weights)
        mass = mass or float(cumulative[-1])
        num_kept = _num_kept(sorted_weights, cumulative, mass, top_p, min_p)
        is_cut = num_kept < num_sorted or num_sorted == num_candidates
        if is_cut or (top_p >= 1.0 and min_p <= 0.0):
            kept_mass = cumulative[num_kept - 1] if is_cut else mass
            indices = np.searchsorted(cumulative, np.array(uniforms) * kept_mass, side="right")
            if is_cut or (indices < num_kept).all():
                return [int(index) for index in order[np.minimum(indices, num_kept - 1)]]
        num_sorted = min(num_sorted * 16, num_candidates)


def _weigh(logits: np.ndarray, largest: float, temperature: float) -> np.ndarray:
    """exp of the distance to the largest; torch's is twice as fast as numpy's."""
    return torch.from_numpy(logits).to(torch.float64, copy=True).sub_(largest).div_(temperature).exp_().numpy()


def _mass(logits: np.ndarray, num_candidates: int, largest: float, temperature: float) -> float:
    """Sum of the candidates' weights; numpy's sum has one order on however many threads."""
    candidates = logits if num_candidates == len(logits) else logits[most_likely(logits, num_candidates)]
    return float(_weigh(candidates, largest, temperature).sum())


def _num_kept(weights: np.ndarray, cumulative: np.ndarray, mass: float, top_p: float, min_p: float) -> int:
    """How many of the sorted tokens survive: the fewest that hold `top_p` of the mass, none below `min_p` of the best.

    A token of no weight (forbidden) never survives.
    """
    by_min_p = np.count_nonzero(weights >= min_p) if min_p > 0 else np.count_nonzero(weights)
    by_top_p = int(np.searchsorted(cumulative, top_p * mass)) + 1 if top_p < 1.0 else len(weights)
    return max(1, min(int(by_min_p), by_top_p, len(weights)))


def most_likely(values: np.ndarray, count: int) -> np.ndarray:
    """Indices of the `count` largest values, largest first, ties by index: the start of a stable full sort."""
    if count <= 0:
        return np.empty(0, dtype=np.int64)
    if count >= len(values):
        return np.argsort(-values, kind="stable")
    candidates = np.flatnonzero(values >= _border(values, count))
    return candidates[np.argsort(-values[candidates], kind="stable")][:count]


def _border(values: np.ndarray, count: int) -> float:
    """A value that at least `count` values reach and few more: the `count`-th largest of all, or of columns' maxima."""
    num_columns = len(values) // COLUMN_LENGTH
    if 4 * count <= num_columns:
        values = values[: num_columns * COLUMN_LENGTH].reshape(COLUMN_LENGTH, num_columns).max(axis=0)
    return float(np.partition(values, len(values) - count)[len(values) - count])


def log_softmax(logits: np.ndarray) -> np.ndarray:
    shifted = logits - logits.max()
    normalized: np.ndarray = shifted - np.log(np.exp(shifted).sum())
    return normalized
