"""Text of one choice from its tokens, as they come. Begins with the first output token: it cannot show the prompt."""

from __future__ import annotations

import codecs

from baton.core.errors import Reason, RequestFailed
from baton.services.router.text.token_table import TokenTable


class Undecodable(RequestFailed):
    """A token id that the tokenizer cannot have produced: this request ends, others go on."""

    def __init__(self, token: int) -> None:
        super().__init__(Reason.INTERNAL, f"token {token} is outside the vocabulary")


def chars_before(rest: bytes, piece: bytes) -> int:
    """How many characters of the text of both come before the one in which `piece` starts. `rest` is the begin of a
    character: of the same one, or the piece shows that it is broken, and its U+FFFD comes first."""
    return len((rest + piece[:1]).decode("utf-8", "replace")) - 1 if rest else 0


class Detokenizer:
    """Pushed texts and the flush, concatenated, are `decode(all bytes, errors="replace")`, wherever the tokens cut it.

    A character that is not complete yet stays here. U+FFFD appears for bytes that no continuation could complete, and
    once at the end for a tail that nothing completed.
    """

    def __init__(self, table: TokenTable) -> None:
        self._pieces = table.pieces
        self._rest = b""  #: the begin of a character

    def push(self, *tokens: int) -> str:
        """Text that is complete with these tokens; empty in the middle of a character and for control tokens."""
        pieces = self._pieces
        data = self._rest + b"".join([pieces[self.check(token)] for token in tokens])
        text, num_used = codecs.utf_8_decode(data, "replace", False)
        self._rest = data[num_used:]
        return text

    def num_before(self, token: int) -> int:
        """Characters that pushing this token adds before its own text."""
        return chars_before(self._rest, self._pieces[self.check(token)])

    @property
    def num_flushed(self) -> int:
        """Characters that `flush` would return."""
        return len(self._rest.decode("utf-8", "replace"))

    def flush(self) -> str:
        """What an incomplete tail decodes to. It ends there: bytes that are pushed afterwards do not complete it."""
        text = self._rest.decode("utf-8", "replace")
        self._rest = b""
        return text

    def check(self, token: int) -> int:
        """Return an id that can be pushed; raise Undecodable."""
        if not 0 <= token < len(self._pieces):
            raise Undecodable(token)
        return token
