"""Keeps what a user writes apart from the model's control tokens.

A chat template writes control tokens such as `<|im_end|>` around the messages, and the tokenizer reads them in the
rendered text. If a message spells one, it must stay text. So each such spelling in a message is replaced by a mark
that a client cannot guess, the template is rendered, and the marked pieces are then tokenized as ordinary text.
A prompt of /v1/completions is the client's whole prompt, control tokens included: nothing is replaced there.
"""

from __future__ import annotations

import re
import secrets
from typing import Any

OPEN, CLOSE = "\ue000", "\ue001"  #: private-use characters around a mark
HIDDEN = re.compile(f"([0-9]+){CLOSE}")  #: what follows a mark: which name it stands for


class ControlTokens:
    """The control tokens of one tokenizer, by their spelling."""

    def __init__(self, names: tuple[str, ...]) -> None:
        self._names = sorted(names, key=len, reverse=True)
        self._index = {name: index for index, name in enumerate(self._names)}
        self._pattern = re.compile("|".join(map(re.escape, self._names))) if names else None

    def new_mark(self) -> str:
        """A mark for one request."""
        return secrets.token_hex(16)

    def hide(self, text: str, mark: str) -> str:
        """Replace every spelling of a control token in a message's text."""
        if self._pattern is None:
            return text
        return self._pattern.sub(lambda found: f"{OPEN}{mark}{self._index[found[0]]}{CLOSE}", text)

    def hide_all(self, value: Any, mark: str) -> Any:
        """The same, in all strings within a message or a tool's description."""
        if isinstance(value, str):
            return self.hide(value, mark)
        if isinstance(value, dict):
            return {self.hide(key, mark): self.hide_all(inner, mark) for key, inner in value.items()}
        if isinstance(value, (list, tuple)):
            return [self.hide_all(inner, mark) for inner in value]
        return value

    def split(self, rendered: str, mark: str) -> list[tuple[str, bool]]:
        """Pieces of a rendered prompt in order, each with whether it was hidden (and is ordinary text)."""
        opening = f"{OPEN}{mark}"  # a pattern with the mark in it would be compiled for each request
        text, *rest = rendered.split(opening)
        pieces: list[tuple[str, bool]] = []
        for piece in rest:
            found = HIDDEN.match(piece)
            if found is None:  # the template cut the spelling off
                text += opening + piece
            else:
                pieces += [(text, False), (self._names[int(found[1])], True)]
                text = piece[found.end() :]
        pieces.append((text, False))
        return [(text, hidden) for text, hidden in pieces if text]
