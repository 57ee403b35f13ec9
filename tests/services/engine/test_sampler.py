"""The sampler against a plain full-sort twin, and what the parameters promise."""

from __future__ import annotations

import itertools
from array import array

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from baton.core.executor.steps import NewSequence, SampledToken
from baton.core.wire.sampling import SamplingParams
from baton.services.executor.engine.devices.base import DeviceBroken
from baton.services.executor.engine.philox import keyed_uniform, philox_4x32
from baton.services.executor.engine.sampler import draw, most_likely, sample_rows
from baton.services.executor.engine.sequences import DeviceSequence
from tests.services.engine.conftest import pack

VOCAB_SIZE = 1500


def sequence_of(params: SamplingParams, tokens: list[int], num_prompt: int, choice: int = 0) -> DeviceSequence:
    return DeviceSequence(NewSequence(1, pack(tokens), num_prompt, params, choice))


def sample(
    logits: torch.Tensor, params: SamplingParams, tokens: list[int], num_prompt: int, count: int = 1
) -> list[int]:
    drawn = sample_rows(logits.unsqueeze(0), [sequence_of(params, tokens, num_prompt)], [count])
    return [token.token for token in drawn[0]]


def slow_draw(logits: np.ndarray, top_k: int, top_p: float, min_p: float, uniform: float) -> tuple[int, float]:
    """Sort everything, cut, walk. Also how far the draw is from the token's border, as a share of the mass."""
    order = sorted(range(len(logits)), key=lambda token: (-logits[token], token))[: top_k or len(logits)]
    weights = np.exp(logits[order] - logits.max())
    kept = 0
    while kept < len(order) and (kept == 0 or (weights[:kept].sum() < top_p * weights.sum() or top_p >= 1)):
        kept += 1
    while kept > 1 and weights[kept - 1] < min_p:
        kept -= 1
    borders = np.cumsum(weights[:kept]) / weights[:kept].sum()
    index = min(int(np.searchsorted(borders, uniform, side="right")), kept - 1)
    return order[index], float(np.abs(borders - uniform).min())


@settings(max_examples=150)
@given(
    seed=st.integers(0, 2**32 - 1),
    spread=st.sampled_from([0.0, 0.3, 1.0, 4.0, 15.0]),
    top_k=st.sampled_from([0, 1, 2, 40, 64, 65, 900, 1500, 5000]),
    top_p=st.sampled_from([1e-9, 0.1, 0.5, 0.9, 0.999, 1.0]),
    min_p=st.sampled_from([0.0, 0.01, 0.5, 1.0]),
    uniform=st.floats(0, 1, exclude_max=True),
)
def test_x8_draws_agree_with_a_full_sort_or_lie_on_a_border(
    seed: int, spread: float, top_k: int, top_p: float, min_p: float, uniform: float
) -> None:
    logits = np.round(np.random.default_rng(seed).normal(size=VOCAB_SIZE) * spread, 2)
    (token,) = draw(logits, top_k, top_p, min_p, [uniform])
    expected, distance = slow_draw(logits, top_k, top_p, min_p, uniform)
    assert token == expected or distance < 1e-9


@given(st.lists(st.integers(-5, 5), min_size=1, max_size=80), st.integers(0, 90))
def test_most_likely_is_the_start_of_a_stable_sort(values: list[int], count: int) -> None:
    expected = sorted(range(len(values)), key=lambda index: (-values[index], index))[:count]
    assert most_likely(np.array(values, dtype=np.float64), count).tolist() == expected


def test_philox_gives_the_published_vectors() -> None:
    ones = 0xFFFFFFFF
    pi = (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344), (0xA4093822, 0x299F31D0)
    assert philox_4x32((0, 0, 0, 0), (0, 0)) == (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)
    assert philox_4x32((ones,) * 4, (ones, ones)) == (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)
    assert philox_4x32(*pi) == (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1)


def test_uniform_numbers_are_in_range_distinct_and_even() -> None:
    keys = itertools.product((0, 2**63, -1), range(40), range(10))
    numbers = [keyed_uniform(*key) for key in keys]
    assert len(set(numbers)) == len(numbers)
    assert 0 <= min(numbers) < 0.01
    assert 0.99 < max(numbers) < 1
    assert abs(np.mean(numbers) - 0.5) < 0.03


def test_drawn_frequencies_are_the_probabilities() -> None:
    logits = np.log(np.array([0.05, 0.5, 0.15, 0.3]))
    uniforms = [keyed_uniform(1, position, 0) for position in range(4000)]
    counts = np.bincount(draw(logits, 0, 1.0, 0.0, uniforms), minlength=4) / 4000
    assert np.abs(counts - [0.05, 0.5, 0.15, 0.3]).max() < 0.03


def test_a_row_draws_the_same_whatever_the_other_rows_and_their_order() -> None:
    logits = torch.randn(5, VOCAB_SIZE)
    params = [SamplingParams(max_tokens=9, temperature=0.4 * index, seed=index) for index in range(5)]
    alone = [sample(logits[index], params[index], [3, 4, 5], 2)[0] for index in range(5)]
    order = [3, 0, 4, 2, 1]
    together = sample_rows(logits[order], [sequence_of(params[index], [3, 4, 5], 2) for index in order], [1] * 5)
    assert [token[0].token for token in together] == [alone[index] for index in order]


def test_a_draw_depends_on_seed_position_and_choice() -> None:
    logits = torch.zeros(VOCAB_SIZE)
    base = sample(logits, SamplingParams(max_tokens=9, seed=1), [3, 4, 5], 2, count=3)
    assert len(set(base)) == 3
    assert base[0] != sample(logits, SamplingParams(max_tokens=9, seed=2), [3, 4, 5], 2)[0]
    assert base[0] != sample(logits, SamplingParams(max_tokens=9, seed=1), [3, 4, 5], 1)[0]
    assert base == sample(logits, SamplingParams(max_tokens=9, seed=1), [3, 4, 8], 2, count=3)


def test_greedy_ties_go_to_the_lowest_id_with_and_without_bias() -> None:
    logits = torch.zeros(VOCAB_SIZE)
    logits[[700, 40, 1400]] = 2.0
    greedy = SamplingParams(max_tokens=1, temperature=0.0)
    assert sample(logits, greedy, [1], 1) == [40]
    biased = SamplingParams(max_tokens=1, temperature=0.0, logit_bias=((40, -1.0), (3, 0.5)))
    assert sample(logits, biased, [1], 1) == [700]


def test_ends_are_forbidden_until_min_tokens_are_out() -> None:
    logits = torch.zeros(VOCAB_SIZE)
    logits[9], logits[8] = 50.0, 40.0
    params = SamplingParams(max_tokens=9, temperature=0.0, min_tokens=3, stop_token_ids=(9, VOCAB_SIZE + 3))
    assert [sample(logits, params, [1, *[8] * num_outputs], 1)[0] for num_outputs in range(4)] == [8, 8, 9, 9]
    assert all(params.ends_with(9, number) == (number >= 3) for number in range(1, 5))


@pytest.mark.parametrize(
    ("penalties", "tokens", "num_prompt", "expected"),
    [
        ({}, [0, 0, 1], 1, 0),
        ({"repetition_penalty": 2.0}, [0, 1], 2, 3),  # the prompt counts: 0.5, 0.5, -1, 0.9, 0
        ({"repetition_penalty": 2.0}, [0, 1, 2, 3], 1, 0),  # all seen: 0.5, 0.5, -2, 0.45, 0
        ({"presence_penalty": 0.5}, [0, 0, 1], 2, 0),  # the prompt does not count: 1, 0.5, -1, 0.9, 0
        ({"presence_penalty": 0.5}, [4, 0, 0, 1], 1, 3),  # 0.5, 0.5, -1, 0.9, 0
        ({"frequency_penalty": 0.3}, [4, 0, 0, 1, 3], 1, 1),  # 0.4, 0.7, -1, 0.6, 0
        ({"presence_penalty": -2.0}, [4, 2], 1, 0),  # -1 + 2 = 1 ties with token 0
    ],
)
def test_penalties_count_the_right_tokens(
    penalties: dict[str, float], tokens: list[int], num_prompt: int, expected: int
) -> None:
    params = SamplingParams(max_tokens=9, temperature=0.0, **penalties)
    assert sample(torch.tensor([1.0, 1.0, -1.0, 0.9, 0.0]), params, tokens, num_prompt) == [expected]


def test_reported_logprobs_are_of_the_models_own_distribution() -> None:
    logits = torch.randn(VOCAB_SIZE) * 3
    expected = logits.double().log_softmax(0)
    params = SamplingParams(max_tokens=9, temperature=0.5, top_k=5, logit_bias=((7, 3.0),), num_logprobs=4)
    ((token,),) = sample_rows(logits.unsqueeze(0), [sequence_of(params, [1], 1)], [1])
    assert isinstance(token, SampledToken)
    assert token.logprobs is not None
    assert token.logprobs.logprob == pytest.approx(float(expected[token.token]), abs=1e-12)
    assert token.logprobs.top_ids == tuple(expected.argsort(descending=True)[:4].tolist())
    assert token.logprobs.top_logprobs == pytest.approx(expected.sort(descending=True).values[:4].tolist(), abs=1e-12)
    only_chosen = SamplingParams(max_tokens=9, num_logprobs=0)
    ((token,),) = sample_rows(logits.unsqueeze(0), [sequence_of(only_chosen, [1], 1)], [1])
    assert token.logprobs is not None
    assert token.logprobs.top_ids == ()


def test_logits_that_are_not_finite_break_the_device() -> None:
    logits = torch.zeros(2, 8)
    logits[1, 3] = float("nan")
    greedy = SamplingParams(max_tokens=1, temperature=0.0)
    with pytest.raises(DeviceBroken):
        sample_rows(logits, [sequence_of(greedy, [1], 1)] * 2, [1, 1])


def test_int32_tokens_survive_packing() -> None:
    tokens = [0, 49151, 2**31 - 1]
    assert sequence_of(SamplingParams(max_tokens=1), tokens, 3).tokens == array("i", tokens)
