"""The packed dense layers against torch, and the promise that a row's numbers depend on the row alone."""

from __future__ import annotations

import pytest
import torch
from torch.nn.functional import linear, silu

from baton.services.executor.engine.kernels.native import PackedLinear, usable_sets

ROW_COUNTS = [1, 2, 3, 5, 6, 7, 11, 12, 13, 16, 24, 31, 95, 96, 97, 200]


def double_linear(rows: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    return linear(rows.double(), weight.double(), bias.double())


@pytest.mark.parametrize("which", usable_sets())
@pytest.mark.parametrize(("num_outputs", "num_inputs"), [(7, 5), (64, 576), (100, 1300), (33, 64)])
def test_layers_agree_with_float64_for_every_number_of_rows(num_outputs: int, num_inputs: int, which: int) -> None:
    torch.manual_seed(0)
    weight, bias = torch.randn(num_outputs, num_inputs), torch.randn(num_outputs)
    packed = PackedLinear(weight, bias, which)
    for num_rows in ROW_COUNTS:
        rows, residual = torch.randn(num_rows, num_inputs), torch.randn(num_rows, num_outputs)
        expected = double_linear(rows, weight, bias)
        torch.testing.assert_close(packed(rows, 2).double(), expected, atol=2e-4, rtol=1e-5)
        added = packed(rows, 1, added_to=residual.clone())
        torch.testing.assert_close(added.double(), residual + expected, atol=2e-4, rtol=1e-5)


@pytest.mark.parametrize("which", usable_sets())
@pytest.mark.parametrize("has_bias", [False, True])
def test_a_gated_layer_agrees_with_float64(has_bias: bool, which: int) -> None:
    torch.manual_seed(0)
    weight = torch.randn(2 * 75, 96) / 4
    bias = torch.randn(150) if has_bias else torch.zeros(150)
    packed = PackedLinear(weight, bias if has_bias else None, which, is_gated=True)
    for num_rows in ROW_COUNTS:
        rows = torch.randn(num_rows, 96)
        gate, up = double_linear(rows, weight, bias).chunk(2, dim=1)
        torch.testing.assert_close(packed(rows, 2).double(), silu(gate) * up, atol=1e-4, rtol=1e-5)


@pytest.mark.parametrize("which", usable_sets())
def test_a_row_gets_the_same_bits_alone_and_in_any_batch(which: int) -> None:
    torch.manual_seed(0)
    packed = PackedLinear(torch.randn(80, 1536), None, which)
    rows = torch.randn(200, 1536)
    whole = packed(rows, 2)
    for num_rows in ROW_COUNTS:
        assert torch.equal(packed(rows[:num_rows].contiguous(), 1), whole[:num_rows])
    assert torch.equal(packed(rows[150:151], 2), whole[150:151])


@pytest.mark.parametrize("which", usable_sets())
def test_silu_of_extreme_gates_is_finite_and_right(which: int) -> None:
    weight = torch.zeros(16, 1)
    weight[:8, 0] = torch.tensor([-200.0, -90.0, -87.5, -20.0, 0.0, 20.0, 90.0, 300.0])
    weight[8:, 0] = 1.0
    gated = PackedLinear(weight, None, which, is_gated=True)(torch.ones(1, 1), 1)
    torch.testing.assert_close(gated[0], silu(weight[:8, 0]), atol=1e-30, rtol=1e-5)
