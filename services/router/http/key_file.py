"""API keys as text: one a line, with what its holder may do. No error shows any part of a line: it could be a key."""

from __future__ import annotations

import logging
import math
import re
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from baton.core.errors import ServingError
from baton.services.runtime.secret import Secret

LOG = logging.getLogger("baton.router.keys")
VARIABLE = "BATON_API_KEYS"
MIN_KEY_CHARS = 16
TENANT = re.compile(r"[A-Za-z0-9._-]{1,64}")
FIELDS = ("tenant", "rate", "burst", "concurrency", "priority")
RATES_PER_S = (1e-6, 1e6)
MAX_COUNT = 1_000_000_000  #: of `burst` and `concurrency`


class ApiKeysInvalid(ServingError):
    """The keys cannot be used as they are written; names the line."""


class NoApiKeys(ApiKeysInvalid):
    """Keys were configured and there is none: serving without authentication would not be what was meant."""


class KeyEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One line: a key and the limits of its holder in one router. None: no limit."""

    key: Secret
    place: str  #: file and line
    tenant: str = ""  #: of its own if empty
    rate: float | None = None  #: requests per second
    burst: int | None = None  #: requests at once, after a pause
    concurrency: int | None = None  #: requests that run at the same time
    priority: int = 0  #: the most urgent class that its requests may have


def read_key_file(path: Path, max_priority: int) -> list[KeyEntry]:
    """The keys of a file, at least one. Warns where others may read it."""
    try:
        text = path.read_text(encoding="utf-8-sig")
        mode = path.stat().st_mode
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise ApiKeysInvalid(f"{path} cannot be read: {reason}") from None
    if mode & stat.S_IROTH:
        LOG.warning("%s holds API keys and every user of this machine may read it: chmod o-r", path)
    return parse_keys(text, str(path), max_priority)


def parse_keys(text: str, source: str, max_priority: int) -> list[KeyEntry]:
    """At least one; `#` at the beginning of a line or after a blank begins a comment. Raises ApiKeysInvalid."""
    entries = []
    for number, line in enumerate(text.splitlines(), 1):
        parts, place = list(_without_comment(line)), f"{source}, line {number}"
        try:
            if parts:
                entries.append(_entry(parts, place, max_priority))
        except ValueError as error:
            raise ApiKeysInvalid(f"{place}: {error}") from None
    if not entries:
        raise NoApiKeys(f"{source} holds no key")
    return entries


def _without_comment(line: str) -> Iterator[str]:
    for part in line.split():
        if part.startswith("#"):
            return
        yield part


def _entry(parts: list[str], place: str, max_priority: int) -> KeyEntry:
    key, *fields = parts
    if key.partition("=")[0] in FIELDS:
        raise ValueError("it begins with a field: the key comes first")
    if len(key) < MIN_KEY_CHARS:
        raise ValueError(f"the key has {len(key)} characters, at least {MIN_KEY_CHARS} are needed")
    given: dict[str, Any] = {}
    for position, field in enumerate(fields, 1):
        name, _, value = field.partition("=")
        if name not in FIELDS:
            raise ValueError(f"field {position} after the key is unknown; there are {', '.join(FIELDS)}")
        if name in given:
            raise ValueError(f"{name} is given twice")
        given[name] = _value(name, value, max_priority)
    if "burst" in given and "rate" not in given:
        raise ValueError("burst has no effect without rate")
    return KeyEntry(key=Secret(key), place=place, **given)


def _value(name: str, text: str, max_priority: int) -> Any:
    if name == "tenant":
        if not TENANT.fullmatch(text):
            raise ValueError("tenant must have from 1 to 64 letters, digits, dots, dashes or underscores")
        return text
    if name == "rate":
        return _rate(text)
    low, high = (0, max_priority) if name == "priority" else (1, MAX_COUNT)
    if not (text.isascii() and text.isdigit() and len(text) <= len(str(MAX_COUNT)) and low <= int(text) <= high):
        raise ValueError(f"{name} must be a whole number from {low} to {high}")
    return int(text)


def _rate(text: str) -> float:
    try:
        rate = float(text)
    except ValueError:
        rate = math.nan
    low, high = RATES_PER_S
    if not low <= rate <= high:
        raise ValueError(f"rate must be a number of requests per second from {low:g} to {high:g}")
    return rate
