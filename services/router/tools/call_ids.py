"""Ids of calls, as clients send them back with the results."""

from __future__ import annotations

import string
from collections.abc import Callable

from baton.services.router.tools.detect import ToolFormat

ALPHANUMERICS = string.ascii_letters + string.digits
MISTRAL_CHARS = 9  #: Mistral's templates refuse ids of any other length


def new_call_id(tool_format: ToolFormat, random_bytes: Callable[[int], bytes]) -> str:
    """`call_` and 24 hex digits, or what the format's templates demand. Equal bytes give equal ids."""
    if tool_format not in ("mistral", "mistral_args"):
        return "call_" + random_bytes(12).hex()
    number = int.from_bytes(random_bytes(16), "big")
    digits = []
    for _ in range(MISTRAL_CHARS):
        number, digit = divmod(number, len(ALPHANUMERICS))
        digits.append(ALPHANUMERICS[digit])
    return "".join(digits)
