"""Where the lanes of steps compute: on which cores each (O8), and what is told of that in vain (C12)."""

from __future__ import annotations

from baton.core.config import ExecutorConfig
from baton.core.ids import Role
from baton.services.runtime.settings import DeviceSettings, SettingsInvalid

SHARED, PARTITIONED = "shared", "partitioned"


def lane_cores(
    role: Role, config: ExecutorConfig, told: DeviceSettings, cores: tuple[int, ...]
) -> tuple[frozenset[int], ...]:
    """By lane, the cores of its threads: all for each, or parts that do not meet. A prefill executor has one lane, and
    what [device] says of two is for those beside it that decode. Raises SettingsInvalid."""
    if told.overlap not in (SHARED, PARTITIONED):
        raise SettingsInvalid(f"device.overlap = {told.overlap!r} is none of {SHARED}, {PARTITIONED}")
    if config.num_lanes == 1:
        if role is not Role.PREFILL:
            _refuse(told, "overlap", "prefill_cores", why="only with step_mode = overlap")
        return (frozenset(cores),)
    if told.num_ranks > 1:
        raise SettingsInvalid(f"step_mode = overlap: not with device.num_ranks = {told.num_ranks}")
    if told.overlap == SHARED:
        _refuse(told, "prefill_cores", why=f"only with device.overlap = {PARTITIONED}")
        return (frozenset(cores),) * config.num_lanes
    num_prefill = told.prefill_cores or len(cores) // 2
    if not 0 < num_prefill < len(cores):
        raise SettingsInvalid(f"device.prefill_cores = {num_prefill} of {len(cores)} cores: each lane needs one")
    return frozenset(cores[:-num_prefill]), frozenset(cores[-num_prefill:])


def _refuse(told: DeviceSettings, *keys: str, why: str) -> None:
    default = DeviceSettings()
    for key in keys:
        if getattr(told, key) != getattr(default, key):
            raise SettingsInvalid(f"device.{key} = {getattr(told, key)} has no effect: {why}")
