"""Grammars that pass the check and cannot be followed to the end."""

from __future__ import annotations

NUM_LETTERS = 30  #: more than the check writes
NUM_WAYS = 1200  #: more than the limits allow at one place


def failing_after_letters() -> str:
    """In Lark: so many letters, then more ways to go on than a step may take."""
    ways = range(NUM_WAYS)
    rules = [f"start: /[a-z]{{{NUM_LETTERS}}}/ rest", "rest: " + " | ".join(f"way{way}" for way in ways)]
    return "\n".join(rules + [f'way{way}: "{way}" "."' for way in ways])
