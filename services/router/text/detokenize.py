"""Text of one choice from its tokens, as they come. Begins with the first output token: it cannot show the prompt."""

from __future__ import annotations

import codecs

from baton.core.errors import Reason, RequestFailed
from baton.services.router.text.token_table import TokenTable

_Utf8Decoder = codecs.getincrementaldecoder("utf-8")


class Undecodable(RequestFailed):
    """A token id that the tokenizer cannot have produced: this request ends, others go on."""

    def __init__(self, token: int) -> None:
        super().__init__(Reason.INTERNAL, f"token {token} is outside the vocabulary")


class Detokenizer:
    """Pushed texts and the flush, concatenated, are `decode(all bytes, errors="replace")`, wherever the tokens cut it.

    A character that is not complete yet stays here. U+FFFD appears for bytes that no continuation could complete, and
    once at the end for a tail that nothing completed.
    """

    def __init__(self, table: TokenTable) -> None:
        self._pieces = table.pieces
        self._decoder = _Utf8Decoder("replace")

    def push(self, *tokens: int) -> str:
        """Text that is complete with these tokens; empty in the middle of a character and for control tokens."""
        pieces = self._pieces
        for token in tokens:
            if not 0 <= token < len(pieces):
                raise Undecodable(token)
        return self._decoder.decode(b"".join([pieces[token] for token in tokens]))

    def flush(self) -> str:
        """The end: what an incomplete tail decodes to. Push nothing after it."""
        return self._decoder.decode(b"", True)
