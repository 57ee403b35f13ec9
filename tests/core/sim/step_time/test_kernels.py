"""Step times from kernel times: what adds up, what is padded, and what a table must say."""

from __future__ import annotations

import pytest

from baton.core.sim.step_time.features import Features
from baton.core.sim.step_time.kernels import AttentionShape, KernelTables, Reach, TooFewShapes, compose

LAYERS = 3
US = 1e-6
DENSE = {
    "qkv_proj": ((1, 10 * US), (100, 109 * US)),  # 9 + positions
    "layernorm": ((1, 2 * US), (100, 2 * US)),
    "embedding": ((1, 7 * US), (100, 7 * US)),
}
HEAD = {"lm_head": ((1, 50 * US), (10, 59 * US))}  # 49 + rows
REACH = Reach(positions=100, decodes=10, kv_tokens=2000, sequence=500)
SHAPES = [
    AttentionShape(
        chunk, before, decodes, context, (8 * bool(chunk) + 2e-3 * chunk * (before + chunk / 2) + decodes) * US
    )
    for chunk in (0, 10, 40, 80)
    for before in ((0, 50, 100) if chunk else (0,))
    for decodes in (0, 2, 6)
    for context in ((20, 40, 100, 200) if decodes else (0,))
    if chunk or decodes
]


def seconds(features: Features, reach: Reach = REACH, host_s: float = 0.0) -> float:
    return compose(KernelTables(DENSE, HEAD, SHAPES), LAYERS, reach, host_s).model.duration_s(features)


def test_a_decode_step_is_its_products_its_head_and_its_attention() -> None:
    decode = Features(decodes=4, context=300, rows=4)
    layer = (9 + 4) + 2 * 2 + 4  # products, two norms, attention
    assert seconds(decode) == pytest.approx((LAYERS * layer + 7 + 49 + 4) * US)
    assert seconds(decode, host_s=1e-3) == pytest.approx((LAYERS * layer + 7 + 49 + 4) * US + 1e-3)


def test_prompts_of_one_step_add_up_in_the_sum_that_describes_them() -> None:
    chunks = [(30, 0), (20, 60)]
    attention = sum(chunk * (before + chunk / 2) for chunk, before in chunks)
    prompts = Features(tokens=50, attention=attention, prompts=2, rows=1)
    layer = (9 + 50) + 4 + 8 + 2e-3 * attention
    assert seconds(prompts) == pytest.approx((LAYERS * layer + 7 + 49 + 1) * US)
    mixed = prompts._replace(decodes=5, context=100, rows=6)
    layer += 5 + 5  # rows of the products, attention of the decodes
    assert seconds(mixed) == pytest.approx((LAYERS * layer + 7 + 49 + 6) * US)


@pytest.mark.parametrize(("decodes", "padded"), [(1, 4), (3, 4), (4, 4), (5, 8), (8, 8), (9, 9)])
def test_products_are_padded_to_the_next_captured_size_and_not_beyond_the_largest(decodes: int, padded: int) -> None:
    plain = Features(decodes=decodes, context=0, rows=0)
    captured = REACH._replace(captured=(4, 8))
    assert seconds(plain, captured) - seconds(plain) == pytest.approx(LAYERS * (padded - decodes) * US)


def test_shapes_that_the_engine_cannot_meet_are_not_fitted() -> None:
    odd = [AttentionShape(0, 0, 20, 10, 1.0), AttentionShape(0, 0, 6, 499, 1.0), AttentionShape(90, 0, 20, 10, 1.0)]
    assert compose(KernelTables(DENSE, HEAD, SHAPES + odd), LAYERS, REACH, 0.0).errors["decode"].mape < 1e-6


def test_without_mixed_shapes_mixed_steps_are_joined_and_without_decodes_nothing_is_said() -> None:
    apart = [shape for shape in SHAPES if not (shape.chunk and shape.decodes)]
    assert compose(KernelTables(DENSE, HEAD, apart), LAYERS, REACH, 0.0).model.mixed is None
    with pytest.raises(TooFewShapes, match="0 rows of decode steps"):
        compose(KernelTables(DENSE, HEAD, [shape for shape in apart if shape.chunk]), LAYERS, REACH, 0.0)
