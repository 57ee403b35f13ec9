"""Which cores a process may use."""

from __future__ import annotations

import os

from baton.core.errors import ServingError


class CoresInvalid(ServingError):
    """A list of cores that does not parse, or names cores that this process may not use."""


def parse_cores(text: str) -> tuple[int, ...]:
    """`0-1,3` → (0, 1, 3); empty: all that this process may use now."""
    allowed = os.sched_getaffinity(0)
    if not text:
        return tuple(sorted(allowed))
    cores: set[int] = set()
    for part in text.split(","):
        first, dash, last = part.partition("-")
        try:
            cores.update(range(int(first), int(last if dash else first) + 1))
        except ValueError as error:
            raise CoresInvalid(f"{text!r} is no list of cores such as 0-1,3") from error
    if not cores or not cores <= allowed:
        raise CoresInvalid(f"cores {text!r} are not among {sorted(allowed)}")
    return tuple(sorted(cores))


def split_cores(cores: tuple[int, ...], num_parts: int) -> list[tuple[int, ...]]:
    """Give each part its own cores as evenly as possible; with fewer cores than parts they share, in turn."""
    if len(cores) <= num_parts:
        return [(cores[index % len(cores)],) for index in range(num_parts)]
    bounds = [index * len(cores) // num_parts for index in range(num_parts + 1)]
    return [cores[bounds[index] : bounds[index + 1]] for index in range(num_parts)]


def cores_text(cores: tuple[int, ...]) -> str:
    return ",".join(str(core) for core in cores)
