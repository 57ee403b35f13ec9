"""A setting that is told to nobody."""

from __future__ import annotations

from typing import Any


class Secret:
    """A text that neither `repr` nor the resolved settings show: whoever needs it asks for it by `reveal`."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def __repr__(self) -> str:
        return "Secret()"

    def reveal(self) -> str:
        return self._text


def decode_secret(kind: type, value: Any) -> Any:
    """msgspec's `dec_hook`: a string becomes a Secret. The error shows no value."""
    if kind is Secret and isinstance(value, str):
        return Secret(value)
    raise ValueError("a text is needed")


def encode_secret(value: Any) -> str:
    """msgspec's `enc_hook`: says that there is one."""
    if isinstance(value, Secret):
        return "(secret)"
    raise NotImplementedError(type(value).__name__)
