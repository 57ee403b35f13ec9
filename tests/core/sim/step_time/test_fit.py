"""Fits recover what made the steps, and say how far off they are."""

import math
import statistics
from collections.abc import Callable
from random import Random

import pytest

from baton.core.sim.step_time.features import Features
from baton.core.sim.step_time.fit import TooFewSteps, fit
from baton.core.sim.step_time.model import KindModel, Piece, Term
from baton.core.sim.step_time.observed import ObservedStep


def observed(seconds: Callable[[Features], float], features: list[Features], host: float = 0.0) -> list[ObservedStep]:
    """Always two steps are queued, so that `host` lies between their ends and begins."""
    steps, now = [], 0.0
    for number, each in enumerate(features, 1):
        took = seconds(each)
        steps.append(ObservedStep(number, 0, now - 1e-3, now + host + took, took, *each[:-1]))
        now += host + took
    return steps


def mixed_bag(seed: int, count: int = 400) -> list[Features]:
    rng = Random(seed)
    found = []
    for _ in range(count):
        tokens, before = rng.choice([0, rng.randrange(1, 900)]), rng.randrange(0, 2000)
        decodes = rng.choice([0, rng.randrange(1, 64)]) if tokens else rng.randrange(1, 64)
        found.append(
            Features(
                tokens=tokens, attention=tokens * (before + tokens / 2), prompts=int(tokens > 0), decodes=decodes,
                context=sum(rng.randrange(1, 3000) for _ in range(decodes)), rows=decodes + int(tokens > 0),
            )
        )  # fmt: skip
    return found


def affine_s(features: Features) -> float:
    prompt = 2e-4 * features.tokens + 3e-8 * features.attention
    return 0.004 + prompt + 1e-4 * features.decodes + 2e-7 * features.context


def test_an_affine_device_is_recovered_to_the_last_coefficient() -> None:
    found = fit(observed(affine_s, mixed_bag(1), host=0.0015))
    for features in mixed_bag(2, 100):
        assert found.model.duration_s(features) - found.model.host_s == pytest.approx(affine_s(features), rel=1e-6)
    assert found.model.host_s == pytest.approx(0.0015)
    assert all(error.mape < 1e-6 for error in found.errors.values())
    assert set(found.errors) == {"prefill", "decode", "mixed"}


def test_a_knee_is_found_where_there_is_one() -> None:
    def seconds(features: Features) -> float:
        return 0.01 + 1e-3 * max(features.tokens - 160, 0)

    found = fit(observed(seconds, [Features(tokens=n, attention=n * n / 2, prompts=1) for n in range(4, 400, 3)]))
    for tokens in (10, 150, 200, 390):
        guess = found.model.duration_s(Features(tokens=tokens, attention=tokens * tokens / 2, prompts=1))
        assert guess == pytest.approx(seconds(Features(tokens=tokens)), rel=0.02)


def test_decodes_of_one_number_may_take_longer_than_of_the_next() -> None:
    """Kernels are chosen by size. Beyond what was seen the last difference stays: no line of two points goes on."""
    took = {1: 0.045, 2: 0.048, 3: 0.05, 4: 0.052, 5: 0.063, 6: 0.052, 7: 0.061, 8: 0.053}
    steps = [Features(decodes=n, context=100 * n, rows=n) for n in took for _ in range(20)]
    found = fit(observed(lambda features: took[features.decodes], steps)).model.decode
    assert found is not None
    for n, seconds in took.items():
        assert found.seconds(Features(decodes=n, context=100 * n, rows=n)) == pytest.approx(seconds)
    at_8, at_16 = (found.seconds(Features(decodes=n, context=800)) for n in (8, 16))
    assert at_8 <= at_16 < 2 * at_8


def test_no_table_makes_a_step_shorter_than_a_tenth_of_what_lines_say() -> None:
    """Decodes of 6 and 8 are cheap, those of 12 and 16 are not, and smaller ones were not seen."""
    rng = Random(8)
    steps = [Features(decodes=n, context=100 * n, rows=n) for n in (6, 8, 12, 16) for _ in range(40)]

    def seconds(features: Features) -> float:
        return (0.002 if features.decodes <= 8 else 0.005 * features.decodes / 12) * rng.lognormvariate(0.0, 0.02)

    found = fit(observed(seconds, steps)).model.decode
    assert found is not None
    assert all(found.seconds(Features(decodes=n, context=0)) > 0 for n in range(1, 64))
    assert all(0.5 < ratio < 2 for ratio in found.residuals)


def test_a_table_says_nothing_of_sizes_that_were_hardly_seen() -> None:
    """They share a point with their neighbours, so that no single step is one."""
    steps = [Features(tokens=n, attention=0.0, prompts=1) for n in [*[10] * 40, *[400] * 40, 401]]
    found = fit(observed(lambda features: 9.0 if features.tokens == 401 else 0.1, steps)).model.prefill
    assert found is not None
    assert found.seconds(Features(tokens=401, prompts=1)) < 1.0


def test_where_lines_fit_there_is_no_table() -> None:
    rng = Random(6)
    found = fit(observed(lambda features: affine_s(features) * rng.lognormvariate(0.0, 0.05), mixed_bag(7, 2000))).model
    kinds = (found.prefill, found.decode, found.mixed)
    assert not any(term.points for kind in kinds if kind for piece in kind.pieces for term in piece.terms)


def test_noise_is_told_as_the_residual_and_as_errors_of_the_fit() -> None:
    rng = Random(3)
    found = fit(observed(lambda features: affine_s(features) * rng.lognormvariate(0.0, 0.1), mixed_bag(4, 2000)))
    assert found.model.decode is not None
    assert found.model.decode.noise == pytest.approx(0.1, rel=0.15)
    assert 0.06 < found.errors["decode"].mape < 0.1
    for features in mixed_bag(5, 50):
        assert found.model.duration_s(features) - found.model.host_s == pytest.approx(affine_s(features), rel=0.1)


def test_noisy_steps_are_as_long_on_average_as_they_were() -> None:
    rng = Random(7)
    steps = observed(lambda features: affine_s(features) * rng.lognormvariate(0.0, 0.4), mixed_bag(8, 4000))
    model = fit(steps).model
    guessed = sum(model.duration_s(step.features) - model.host_s for step in steps)
    assert guessed == pytest.approx(sum(step.duration_s for step in steps), rel=0.02)


def test_no_coefficient_is_negative_where_the_data_would_have_it_so() -> None:
    features = [Features(decodes=n, context=n * 9) for n in range(1, 60)]
    found = fit(observed(lambda each: max(0.05 - 1e-4 * each.decodes, 0.01), features))
    assert found.model.decode is not None
    assert all(term.s >= 0 for term in found.model.decode.pieces[0].terms)


def test_a_kind_that_was_hardly_seen_is_left_out_and_no_kind_is_an_error() -> None:
    few = [Features(tokens=100 + n, attention=1.0, prompts=1) for n in range(3)]
    found = fit(observed(affine_s, [*few, *[Features(decodes=n, context=9 * n) for n in range(1, 20)]]))
    assert found.model.prefill is None
    assert set(found.errors) == {"decode"}
    with pytest.raises(TooFewSteps, match="3 steps"):
        fit(observed(affine_s, few))


def test_residuals_are_drawn_as_they_were_seen() -> None:
    """One step of 25 takes three times as long: no log-normal deviation is like that."""
    rng = Random(11)
    steps = observed(lambda features: affine_s(features) * (3.0 if rng.random() < 0.04 else 1.0), mixed_bag(12, 4000))
    model = fit(steps).model.decode
    assert model is not None
    drawn = sorted(model.residual(rng.gauss(0.0, 1.0)) for _ in range(4000))
    seen = sorted(step.duration_s / model.seconds(step.features) for step in steps if not step.features.prompts)
    for share in (0.1, 0.5, 0.9, 0.985):
        assert drawn[int(share * len(drawn))] == pytest.approx(seen[int(share * len(seen))], rel=0.05)
    assert statistics.fmean(drawn) == pytest.approx(1.0, rel=0.05)


def test_of_few_steps_the_deviation_alone_is_told() -> None:
    rng = Random(13)
    steps = observed(lambda features: affine_s(features) * rng.lognormvariate(0.0, 0.1), mixed_bag(14, 60))
    model = fit(steps).model.decode
    assert model is not None
    assert not model.residuals
    assert model.residual(1.0) == pytest.approx(math.exp(model.noise - model.noise**2 / 2))


@pytest.mark.parametrize(("residuals", "says"), [((1.0, 2.0), "2 quantiles"), ((2.0, *([1.0] * 17)), "ascend")])
def test_residuals_that_are_no_quantiles_are_refused(residuals: tuple[float, ...], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        KindModel(pieces=(Piece(terms=(Term(s=1.0),)),), residuals=residuals)
