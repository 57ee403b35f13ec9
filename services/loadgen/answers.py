"""What an event, or a whole answer, says: one shape for all endpoints. Fields that nobody knows are skipped; JSON that
is no answer of the endpoint is malformed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import msgspec

from baton.core.errors import ServingError
from baton.services.loadgen.answer_shapes import (
    ChatAnswer,
    ChatDelta,
    CompletionAnswer,
    ErrorBody,
    ResponseAnswer,
    ResponseEvent,
    UsageBody,
)
from baton.services.loadgen.target import Endpoint

END_MARKER = b"[DONE]"
SHOWN_CHARS = 200  #: of what a server says of an error
BROKEN_REASONS = ("error", "abort")  #: finish reasons by which a server says that it failed
RESPONSE_ENDS = ("response.completed", "response.incomplete", "response.failed")
RESPONSE_DELTAS = (
    "response.output_text.delta",
    "response.refusal.delta",
    "response.reasoning_text.delta",
    "response.reasoning_summary_text.delta",
    "response.function_call_arguments.delta",
)


class AnswerMalformed(ServingError):
    """Bytes that are no answer of this endpoint."""


class Said(msgspec.Struct, frozen=True, gc=False):
    """What one event, or one whole answer, adds to a request."""

    text: str = ""  #: the answer's own text, which a history repeats
    num_chars: int = 0  #: generated: text, reasoning, calls of tools; 0: nothing was
    finish_reason: str = ""
    usage: UsageBody | None = None  #: of the whole request up to now
    server_id: str = ""
    error: str = ""  #: what the server says of its failure
    is_end: bool = False  #: the end marker


Shape = TypeVar("Shape", bound=msgspec.Struct)

CHAT = msgspec.json.Decoder(ChatAnswer)
COMPLETION = msgspec.json.Decoder(CompletionAnswer)
RESPONSE_EVENT = msgspec.json.Decoder(ResponseEvent)
RESPONSE = msgspec.json.Decoder(ResponseAnswer)
END = Said(is_end=True)


def read_chat(data: bytes) -> Said:
    """A chunk of a stream, or a whole answer. Raises AnswerMalformed."""
    return END if data == END_MARKER else said_of_chat(decode(CHAT, data))


def read_completion(data: bytes) -> Said:
    """A chunk of a stream, or a whole answer. Raises AnswerMalformed."""
    return END if data == END_MARKER else said_of_completion(decode(COMPLETION, data))


def read_response_event(data: bytes) -> Said:
    """Raises AnswerMalformed."""
    return END if data == END_MARKER else said_of_response_event(decode(RESPONSE_EVENT, data))


def read_response(data: bytes) -> Said:
    """Raises AnswerMalformed."""
    return said_of_response(decode(RESPONSE, data))


def read_error(body: bytes) -> str:
    """What a body with a status other than 200 says, in one line; whatever it is."""
    try:
        told = msgspec.json.decode(body, type=ChatAnswer)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return one_line(body.decode(errors="replace"))
    return error_text(told) or one_line(body.decode(errors="replace"))


def decode(decoder: msgspec.json.Decoder[Shape], data: bytes) -> Shape:
    try:
        return decoder.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        shown = one_line(data[:60].decode(errors="replace"))
        raise AnswerMalformed(f"no answer of this API ({error}): {shown}") from error


def said_of_chat(answer: ChatAnswer) -> Said:
    error = error_text(answer)
    if error:
        return Said(error=error, server_id=answer.id or "")
    if answer.choices is None:
        raise AnswerMalformed("an answer without choices")
    text, num_chars, reason = "", 0, ""
    for choice in answer.choices:
        delta = choice.delta or choice.message
        if delta is not None:
            text += delta.content or ""
            num_chars += chars_beside_text(delta)
        reason = choice.finish_reason or reason
    num_chars += len(text)
    return Said(text, num_chars, reason, answer.usage, answer.id or "", broken(reason) if reason else "")


def said_of_completion(answer: CompletionAnswer) -> Said:
    error = error_text(answer)
    if error:
        return Said(error=error, server_id=answer.id or "")
    if answer.choices is None:
        raise AnswerMalformed("an answer without choices")
    text, reason = "", ""
    for choice in answer.choices:
        text += choice.text or ""
        reason = choice.finish_reason or reason
    return Said(text, len(text), reason, answer.usage, answer.id or "", broken(reason) if reason else "")


def said_of_response_event(event: ResponseEvent) -> Said:
    if event.type in RESPONSE_DELTAS:
        text = event.delta if event.type == "response.output_text.delta" else ""
        return Said(text, len(event.delta))
    if event.type in RESPONSE_ENDS and event.response is not None:
        said = said_of_response(event.response)
        return msgspec.structs.replace(said, text="", num_chars=0, is_end=True)  # the deltas brought it
    error = error_text(event) or one_line(event.message or "") if event.type == "error" else error_text(event)
    if error or event.type == "error":
        return Said(error=error or "an error without a message")
    if not event.type:
        raise AnswerMalformed("an event without a type")
    return Said(server_id=(event.response.id or "") if event.response is not None else "")


def said_of_response(answer: ResponseAnswer) -> Said:
    error = error_text(answer)
    if error or answer.status == "failed":
        return Said(error=error or "the response failed", server_id=answer.id or "")
    if answer.status is None:
        raise AnswerMalformed("a response without a status")
    pieces = [part for item in answer.output for part in item.content or ()]
    text = "".join(part.text or "" for part in pieces)
    num_chars = len(text) + sum(len(item.arguments or "") for item in answer.output)
    reason = {"completed": "stop", "incomplete": "length"}.get(answer.status, "")
    return Said(text, num_chars, reason, answer.usage, answer.id or "")


def chars_beside_text(delta: ChatDelta) -> int:
    num_chars = len(delta.reasoning_content or delta.reasoning or delta.refusal or "")
    for call in delta.tool_calls or ():
        if call.function is not None:
            num_chars += len(call.function.name or "") + len(call.function.arguments or "")
    return num_chars


def broken(reason: str) -> str:
    return f"finish reason {reason!r}" if reason in BROKEN_REASONS else ""


def error_text(answer: ErrorBody) -> str:
    """What a server says of its failure, in the two forms that are in use; empty: nothing."""
    if answer.object == "error":
        return one_line(answer.message or "an error without a message")
    if answer.error is None:
        return ""
    if isinstance(answer.error, str):
        return one_line(answer.error) or "an error without a message"
    return one_line(str(answer.error.get("message") or answer.error))


def one_line(text: str) -> str:
    """Without what a terminal would obey."""
    shown = " ".join(text.split())[:SHOWN_CHARS]
    return "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in shown)


EVENT_READERS: dict[Endpoint, Callable[[bytes], Said]] = {
    Endpoint.CHAT: read_chat,
    Endpoint.COMPLETIONS: read_completion,
    Endpoint.RESPONSES: read_response_event,
}
WHOLE_READERS: dict[Endpoint, Callable[[bytes], Said]] = {
    Endpoint.CHAT: read_chat,
    Endpoint.COMPLETIONS: read_completion,
    Endpoint.RESPONSES: read_response,
}
