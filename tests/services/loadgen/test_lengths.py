"""Lengths and delays: what a spec means, what is none, and how drawn numbers spread."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from baton.services.loadgen.draws import Purpose, derived_seed, generator, parse_spread
from baton.services.loadgen.lengths import draw_tokens, drawn, sampled
from baton.services.loadgen.load_errors import BadLoad


def tokens(spec: str, count: int = 20_000) -> np.ndarray:
    return draw_tokens(spec, "input_tokens", generator(3, Purpose.INPUT_LENGTHS), count)


def test_a_number_is_every_length() -> None:
    assert set(tokens("512").tolist()) == {512}


def test_uniform_lengths_reach_both_ends_equally_often() -> None:
    counts = np.bincount(tokens("uniform:3-6", 40_000))
    assert counts[:3].tolist() == [0, 0, 0]
    assert counts[3:] == pytest.approx([10_000] * 4, rel=0.05)


def test_normal_lengths_have_their_mean_and_deviation() -> None:
    lengths = tokens("normal:512,64")
    assert lengths.mean() == pytest.approx(512, abs=2)
    assert lengths.std() == pytest.approx(64, abs=2)


def test_normal_lengths_keep_within_their_ends() -> None:
    lengths = tokens("normal:100,80,40-160")
    assert (lengths.min(), lengths.max()) == (40, 160)
    assert tokens("normal:4,10").min() == 1


def test_lognormal_lengths_have_their_median_and_the_deviation_of_their_logarithm() -> None:
    lengths = tokens("lognormal:400,0.5")
    assert np.median(lengths) == pytest.approx(400, rel=0.02)
    assert np.log(lengths).std() == pytest.approx(0.5, rel=0.02)
    kept = tokens("lognormal:67,1.6,2-1085")
    assert (kept.min(), kept.max()) == (2, 1085)
    assert np.median(kept) == pytest.approx(67, rel=0.05)


@pytest.mark.parametrize(
    "spec",
    ["", "many", "1.5", "-3", "0", "uniform:5", "uniform:9-3", "uniform:0-4", "normal:5", "normal:5,0", "normal:a,1",
     "normal:5,1,9-3", "lognormal:5", "lognormal:0,1", "lognormal:5,0", "lognormal:5,99", "zipf:1-2",
     "uniform:1-2-3", "99999999999", "nan"],
)  # fmt: skip
def test_what_is_no_length_is_named_in_one_line(spec: str) -> None:
    with pytest.raises(BadLoad, match="input_tokens") as caught:
        tokens(spec)
    assert "\n" not in str(caught.value)
    assert repr(spec) in str(caught.value)


def test_delays_may_be_fractions_and_zero() -> None:
    rng = generator(1, Purpose.THINK_TIMES)
    assert set(parse_spread("0", "think_s", least=0, is_whole=False).draw(rng, 5).tolist()) == {0.0}
    drawn_s = parse_spread("uniform:0.1-2", "think_s", least=0, is_whole=False).draw(rng, 10_000)
    assert 0.1 <= drawn_s.min() < 0.11 < 1.99 < drawn_s.max() <= 2


def test_input_and_output_lengths_do_not_depend_on_each_other() -> None:
    one, other = drawn("uniform:1-1000", "7", 5, 100), drawn("uniform:1-1000", "uniform:1-9", 5, 100)
    assert np.array_equal(one.num_input_tokens, other.num_input_tokens)


@given(st.lists(st.tuples(st.integers(1, 10**6), st.integers(1, 10**6)), min_size=1), st.integers(0, 50))
def test_lengths_of_a_trace_stay_in_pairs(pairs: list[tuple[int, int]], count: int) -> None:
    lengths = sampled(pairs, generator(0, Purpose.INPUT_LENGTHS), count)
    found = list(zip(lengths.num_input_tokens.tolist(), lengths.num_output_tokens.tolist(), strict=True))
    assert len(found) == count
    assert set(found) <= set(pairs)


def test_lengths_of_an_empty_trace_are_refused() -> None:
    with pytest.raises(BadLoad, match="no lengths"):
        sampled([], generator(0, Purpose.INPUT_LENGTHS), 3)


def test_derived_seeds_differ_and_the_first_is_the_seed() -> None:
    seeds = [derived_seed(seed, number) for seed in range(20) for number in range(1, 20)]
    assert len(set(seeds)) == len(seeds)
    assert derived_seed(11, 0) == 11
