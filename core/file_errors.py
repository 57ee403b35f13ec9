"""What is wrong with a file that somebody wrote: which file, which field of it, and why."""

from __future__ import annotations

import re

from baton.core.errors import ServingError

_PLACE = re.compile(r" - at `(?:key in )?\$\.?([^`]*)`$")


class BadFile(ServingError):
    """It is not what it should be."""

    def __init__(self, where: str, what: str, field: str = "") -> None:
        self.field = field  #: path to what is wrong; empty: the whole
        super().__init__(f"{where}: {f'{field}: ' if field else ''}{what}")


def what_and_field(error: Exception) -> tuple[str, str]:
    """What msgspec says of data that it cannot convert, and the path of the field that it says it of (may be empty)."""
    text = str(error)
    place = _PLACE.search(text)
    return (text, "") if place is None else (text[: place.start()], place[1])
