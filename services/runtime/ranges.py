"""Which numbers a service may be told: all are finite and none is negative; some must be positive or have an end."""

from __future__ import annotations

import math
from collections.abc import Mapping

import msgspec

from baton.services.transport.endpoints import MAX_PORT

#: numbers with which nothing would work if they were 0
POSITIVE: Mapping[str, frozenset[str]] = {
    "link": frozenset({"heartbeat_s", "silence_s", "queued_frames"}),
    "device": frozenset({"block_size", "num_ranks", "rank_timeout_s"}),
    "http": frozenset(
        {
            "max_body_bytes",
            "max_intake_bytes",
            "max_open_requests",
            "max_headers",
            "max_header_bytes",
            "body_timeout_s",
            "stall_timeout_s",
            "default_timeout_s",
            "max_timeout_s",
            "max_choices",
            "max_messages",
            "max_content_parts",
            "max_salt_bytes",
            "num_tokenizer_threads",
        }
    ),
}
INT32_MAX = (1 << 31) - 1
#: the largest values of those that go into a system call or a field of a message
AT_MOST: Mapping[str, Mapping[str, int]] = {
    "service": {"admin_port": MAX_PORT, "trace_events": 10_000_000},
    "link": {"queued_frames": INT32_MAX},
    "device": {"block_size": 1 << 20, "num_blocks": INT32_MAX, "num_ranks": 64, "rank_timeout_s": 3600},
    "http": {"port": MAX_PORT},
}


def check_ranges(section: str, values: msgspec.Struct) -> None:
    """Raises ValueError, which names the key."""
    for name, value in msgspec.structs.asdict(values).items():
        if isinstance(value, int | float) and (wrong := _what_is_wrong(section, name, value)):
            raise ValueError(f"{section}.{name} = {value}: {wrong}")


def _what_is_wrong(section: str, name: str, value: float) -> str:
    if not math.isfinite(value):
        return "must be finite"
    if value < 0:
        return "must not be negative"
    if value == 0 and name in POSITIVE.get(section, ()):
        return "must be positive"
    limit = AT_MOST.get(section, {}).get(name)
    return f"must be at most {limit}" if limit is not None and value > limit else ""
