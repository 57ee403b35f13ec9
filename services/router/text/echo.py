"""The text of a prompt, token by token, for answers that show it before their output."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from baton.services.router.text.detokenize import Detokenizer
from baton.services.router.text.token_table import TokenTable


class EchoedPrompt(NamedTuple):
    text: str
    starts: tuple[int, ...]  #: where each token's text starts, or the character in whose middle it is


def echo_prompt(table: TokenTable, tokens: Iterable[int], given: str | None) -> EchoedPrompt:
    """The tokens' own text, so that places and scores line up; equal to the `given` text but for what a normalizer did.

    A control token shows where the given text, or given ids, name it, and not where the tokenizer added it. The space
    that some tokenizers put before a text is left out again.
    """
    detokenizer = Detokenizer(table)
    pieces: list[str] = []
    starts = []
    num_chars = 0
    for token in tokens:
        name = table.control.get(token)
        if name is None:
            num_before = detokenizer.num_before(token)
            piece = detokenizer.push(token)
        else:
            broken = detokenizer.flush()
            num_before = len(broken)
            is_shown = given is None or given.startswith(name, num_chars + num_before)
            piece = broken + (name if is_shown else "")
        if given is not None and num_chars == 0 and piece.startswith(" ") and not given.startswith(" "):
            piece = piece[1:]
        starts.append(num_chars + num_before)
        pieces.append(piece)
        num_chars += len(piece)
    pieces.append(detokenizer.flush())
    return EchoedPrompt("".join(pieces), tuple(starts))
