"""Which cores the lanes of steps have, and what is told of them in vain."""

from __future__ import annotations

from typing import Any

import pytest

from baton.core.config import ExecutorConfig
from baton.core.ids import Role
from baton.services.executor.lanes import lane_cores
from baton.services.runtime.settings import DeviceSettings, SettingsInvalid

OVERLAP = ExecutorConfig(step_mode="overlap")


def test_o8_shared_lanes_have_all_cores_each() -> None:
    assert lane_cores(Role.DECODE, OVERLAP, DeviceSettings(), (0, 1, 5)) == (frozenset({0, 1, 5}),) * 2


@pytest.mark.parametrize(
    ("told", "decodes", "prompts"), [(0, {0, 1, 2}, {3, 4}), (1, {0, 1, 2, 3}, {4}), (4, {0}, {1, 2, 3, 4})]
)
def test_o8_partitioned_lanes_have_their_own_cores(told: int, decodes: set[int], prompts: set[int]) -> None:
    settings = DeviceSettings(overlap="partitioned", prefill_cores=told)
    assert lane_cores(Role.DECODE, OVERLAP, settings, (0, 1, 2, 3, 4)) == (frozenset(decodes), frozenset(prompts))


def test_one_lane_has_all_cores() -> None:
    assert lane_cores(Role.DECODE, ExecutorConfig(), DeviceSettings(), (2, 3)) == (frozenset({2, 3}),)


@pytest.mark.parametrize(
    ("config", "told", "cores", "why"),
    [
        (ExecutorConfig(), {"overlap": "partitioned"}, (0, 1), "device.overlap = partitioned has no effect"),
        (ExecutorConfig(), {"prefill_cores": 1}, (0, 1), "device.prefill_cores = 1 has no effect"),
        (OVERLAP, {"prefill_cores": 1}, (0, 1), "only with device.overlap = partitioned"),
        (OVERLAP, {"overlap": "both"}, (0, 1), "is none of shared, partitioned"),
        (OVERLAP, {"overlap": "partitioned"}, (0,), "each lane needs one"),
        (OVERLAP, {"overlap": "partitioned", "prefill_cores": 2}, (0, 1), "each lane needs one"),
        (OVERLAP, {"num_ranks": 2}, (0, 1), "not with device.num_ranks = 2"),
    ],
)
def test_c12_what_cannot_be_or_has_no_effect_is_an_error(
    config: ExecutorConfig, told: dict[str, Any], cores: tuple[int, ...], why: str
) -> None:
    with pytest.raises(SettingsInvalid, match=why):
        lane_cores(Role.UNIFIED, config, DeviceSettings(**told), cores)


@pytest.mark.parametrize("told", [{"overlap": "partitioned"}, {"overlap": "partitioned", "prefill_cores": 1}], ids=str)
def test_c12_what_the_device_is_told_for_executors_that_decode_is_not_in_vain_beside_them(told: dict[str, Any]) -> None:
    """[device] is one section for all executors: a prefill executor of the same file has its one lane."""
    settings = DeviceSettings(**told)
    assert lane_cores(Role.PREFILL, ExecutorConfig(), settings, (0, 1)) == (frozenset({0, 1}),)
    assert len(lane_cores(Role.DECODE, OVERLAP, settings, (0, 1))) == 2


def test_a_value_that_is_none_is_refused_by_every_executor() -> None:
    with pytest.raises(SettingsInvalid, match="is none of shared, partitioned"):
        lane_cores(Role.PREFILL, ExecutorConfig(), DeviceSettings(overlap="both"), (0, 1))
