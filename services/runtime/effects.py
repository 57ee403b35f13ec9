"""Settings that would be told in vain. One without effect is an error, not a silence."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from baton.core.ids import Role

#: by section and key: why
WITHOUT_EFFECT: dict[Role, dict[tuple[str, str], str]] = {
    Role.ROUTER: {
        ("link", "listen"): "nobody dials it",
        ("link", "advertise"): "nobody dials it",
    },
    Role.SCHEDULER: {("link", "advertise"): "it is dialed where --scheduler of the others says"},
}
#: what a file for all roles may say and one role does not need: it has no flag for it
FOR_OTHERS: dict[Role, frozenset[tuple[str, str]]] = {
    Role.SCHEDULER: frozenset({("link", "scheduler"), ("link", "scheduler_name"), ("service", "drain_timeout_s")}),
    Role.PREFILL: frozenset({("device", "overlap"), ("device", "prefill_cores")}),
}
#: of [device]
CPU_ONLY = ("num_ranks", "rank_timeout_s", "overlap", "prefill_cores")
FAKE_ONLY = ("step_time_s", "token_time_s", "end_one_in", "checks_memory", "fail_one_piece_in", "piece_delay_s")


def has_flag(role: Role, section: str, key: str) -> bool:
    """Whether it makes sense on the role's command line."""
    return (section, key) not in WITHOUT_EFFECT.get(role, ()) and (section, key) not in FOR_OTHERS.get(role, ())


def told_in_vain(role: Role, sections: Mapping[str, msgspec.Struct]) -> str:
    """The first setting without effect and why it has none; empty if there is none. A default is not told."""
    for (section, key), why in WITHOUT_EFFECT.get(role, {}).items():
        if _is_told(sections[section], key):
            return f"{section}.{key} has no effect on a {role.name.lower()}: {why}"
    device = sections["device"]
    kind = getattr(device, "kind", "")
    if role.is_executor:
        for only, keys in (("fake", FAKE_ONLY), ("cpu", CPU_ONLY)):
            for key in keys:
                if kind != only and _is_told(device, key):
                    return f"device.{key} has no effect on a device of kind {kind}: only on {only}"
        if getattr(device, "num_ranks", 1) == 1 and _is_told(device, "rank_timeout_s"):
            return "device.rank_timeout_s has no effect with device.num_ranks = 1: there is nobody to wait for"
    return ""


def _is_told(values: msgspec.Struct, key: str) -> bool:
    return bool(getattr(values, key) != getattr(type(values)(), key))
