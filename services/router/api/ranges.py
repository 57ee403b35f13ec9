"""Ranges of single fields: a value within them, or a 400 that names the field and the number."""

from __future__ import annotations

import math
from typing import TypeVar

from baton.services.router.errors import invalid

Number = TypeVar("Number", int, float)
INT64 = 1 << 63
INT32_MAX = (1 << 31) - 1


def bound(number: float) -> str:
    """Whole numbers are shown whole: a client has to hit them."""
    return str(number) if isinstance(number, int) else f"{number:g}"


def within(param: str, value: Number | None, default: Number, low: float, high: float) -> Number:
    """`value`, or `default` for None; closed interval."""
    if value is None:
        return default
    if not low <= value <= high or not math.isfinite(value):
        raise invalid(f"{param} is {value}, must be from {bound(low)} to {bound(high)}", param, "out_of_range")
    return value


def positive(param: str, value: Number | None, default: Number, high: float) -> Number:
    """The same for an interval without its lower end, 0."""
    if value is None:
        return default
    if not 0 < value <= high or not math.isfinite(value):
        limit = f"must be greater than 0 and at most {bound(high)}"
        raise invalid(f"{param} is {value}, {limit}", param, "out_of_range")
    return value


def at_most(param: str, num: int, limit: int, what: str) -> None:
    if num > limit:
        raise invalid(f"{param} has {num} {what}, the limit is {limit}", param, "too_many")


def check_token_ids(param: str, ids: list[int], vocab_size: int) -> None:
    """Every id is one that the model knows."""
    if ids and not (min(ids) >= 0 and max(ids) < vocab_size):
        wrong = next(token for token in ids if not 0 <= token < vocab_size)
        raise invalid(f"{param} holds token {wrong}, ids are from 0 to {vocab_size - 1}", param, "token_out_of_range")
