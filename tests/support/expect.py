"""Partial matching of commands: by type, and by the fields that a test names."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from baton.core.events import Send


class Like:
    """Equal to every object of that type whose named fields are equal to these."""

    __hash__ = None  # type: ignore[assignment]

    def __init__(self, kind: type, **fields: Any) -> None:
        self.kind = kind
        self.fields = fields

    def __eq__(self, other: object) -> bool:
        return type(other) is self.kind and all(getattr(other, name) == value for name, value in self.fields.items())

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}={value!r}" for name, value in self.fields.items())
        return f"like {self.kind.__name__}({fields})"


def like(kind: type, **fields: Any) -> Any:
    return Like(kind, **fields)


def says(peer: str, kind: type, **fields: Any) -> Any:
    """A Send to `peer` of such a message."""
    return Like(Send, peer=peer, message=Like(kind, **fields))


def only(commands: Iterable[Any], *kinds: type) -> list[Any]:
    """The commands of these types, and the Sends of messages of these types, in order."""
    return [c for c in commands if isinstance(c, kinds) or (isinstance(c, Send) and isinstance(c.message, kinds))]


def messages(commands: Iterable[Any], kind: type) -> list[Any]:
    """The messages of that type that are sent, in order."""
    return [c.message for c in commands if isinstance(c, Send) and isinstance(c.message, kind)]


def the(commands: Iterable[Any], kind: type) -> Any:
    """The one command, or message in a Send, of that type."""
    found = [c.message if isinstance(c, Send) and not issubclass(kind, Send) else c for c in only(commands, kind)]
    assert len(found) == 1, found
    return found[0]
