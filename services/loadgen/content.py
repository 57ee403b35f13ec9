"""From a planned request to what it says: token ids, or text that has as many tokens.

Prompts follow from the plan's seed and the run's salt. The salt is new for every run unless the run is to be
repeatable, so that no run finds the prompts of an earlier one in a server's cache. Counts of text are those of the
prompt alone: a chat template and a tokenizer's own first token come on top, and the server's usage has the last word.
"""

from __future__ import annotations

import enum
import hashlib
import secrets
from pathlib import Path

import msgspec

from baton.services.loadgen.counted_text import CountedText
from baton.services.loadgen.number_streams import NumberStreams
from baton.services.loadgen.pieces import ASSUMED, PieceSet, pieces_for, token_counter
from baton.services.loadgen.plan import PlannedRequest


class ContentKind(enum.StrEnum):
    TEXT = "text"
    TOKENS = "tokens"  #: ids, for the completions API


class ContentSettings(msgspec.Struct, frozen=True, kw_only=True):
    """All that decides what is said: whoever has the same makes the same prompts."""

    kind: ContentKind = ContentKind.TEXT
    seed: int = 0  #: of the plan
    salt: str = ""
    tokenizer: str = ""  #: path of the target's tokenizer.json; "": words are taken for one token each
    first_token_id: int = 0  #: ids are drawn of `[first_token_id, end_token_id)`
    end_token_id: int = 32000
    marks_texts: bool = False  #: texts of the plan begin with a mark of the run


class Prompt(msgspec.Struct, frozen=True, kw_only=True):
    """One of the three is given."""

    text: str = ""  #: a prompt, or the content of one user message
    token_ids: tuple[int, ...] = ()
    messages_json: str = ""  #: the JSON array of a chat's messages


def new_salt() -> str:
    """Drawn once at a run's start, and part of its report: with it, the same prompts can be made again."""
    return secrets.token_hex(8)


class Content:
    """Makes prompts. Raises BadLoad if the tokenizer cannot be read."""

    def __init__(self, settings: ContentSettings) -> None:
        self._settings = settings
        self._streams = NumberStreams(settings.seed, settings.salt)
        self._pieces: PieceSet = ASSUMED
        self._counted: CountedText | None = None
        if settings.kind == ContentKind.TEXT and settings.tokenizer:
            count_tokens = token_counter(Path(settings.tokenizer))
            self._pieces = pieces_for(count_tokens)
            if not self._pieces.is_one_token_each:
                self._counted = CountedText(self._streams, self._pieces, count_tokens)
        mark = hashlib.blake2b(f"{settings.seed}/{settings.salt}".encode(), digest_size=6).hexdigest()
        self._mark = f"[{mark}] "

    def prompt(self, request: PlannedRequest) -> Prompt:
        if request.text:
            return Prompt(text=self._mark + request.text if self._settings.marks_texts else request.text)
        if request.messages_json:
            return Prompt(messages_json=self._marked(request.messages_json))
        if self._settings.kind == ContentKind.TOKENS:
            first, end = self._settings.first_token_id, self._settings.end_token_id
            ids = self._streams.of_request(request, end - first) + first
            return Prompt(token_ids=tuple(ids.tolist()))
        if self._counted is not None:
            return Prompt(text=self._counted.text(request))
        numbers = self._streams.of_request(request, len(self._pieces.pieces))
        return Prompt(text=self._pieces.text(numbers))

    def _marked(self, messages_json: str) -> str:
        """The mark goes to the first message whose content is a text."""
        if not self._settings.marks_texts:
            return messages_json
        messages = msgspec.json.decode(messages_json, type=list[dict[str, msgspec.Raw]])
        for message in messages:
            content = msgspec.json.decode(message.get("content", msgspec.Raw(b"null")))
            if isinstance(content, str):
                message["content"] = msgspec.Raw(msgspec.json.encode(self._mark + content))
                break
        return msgspec.json.encode(messages).decode()
