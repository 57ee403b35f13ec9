"""Answers of /v1/responses, streamed and whole."""

from __future__ import annotations

import itertools
import sys
import time
from collections.abc import Iterator
from typing import Any

import msgspec

from baton.services.router.api import envelope
from baton.services.router.api.answers import ChosenTokenScore
from baton.services.router.api.bodies import TextFormat
from baton.services.router.api.envelope import Context
from baton.services.router.api.logprobs import chat_logprobs
from baton.services.router.api.responses_answers import (
    ErrorCode,
    IncompleteDetails,
    InputDetails,
    OutputDetails,
    ReasoningSetting,
    Response,
    ResponseError,
    ResponseUsage,
    TextSetting,
)
from baton.services.router.api.responses_bodies import ResponsesBody
from baton.services.router.api.responses_events import Completed, Created, Event, Failed, Incomplete, InProgress
from baton.services.router.api.responses_items import OutputItems
from baton.services.router.errors import ApiError
from baton.services.router.text.choice_text import Delta

CODES: dict[int, ErrorCode] = {400: "invalid_prompt", 429: "rate_limit_exceeded"}  #: by status


class ResponsesShape:
    """One answer. A stream ends with the event of its status; no `[DONE]` follows, as OpenAI's API sends none here."""

    def __init__(self, body: ResponsesBody, context: Context) -> None:
        self._context = context
        self._response = unanswered(body, context)
        self._numbers = itertools.count()
        self._items = OutputItems(context.ask.tools, self._numbers)
        self._num_chars = 0  #: of the output, pushed
        self._finish = ""
        self._is_begun = False

    def part(self, deltas: list[tuple[int, Delta]]) -> bytes:
        if not deltas:
            return b""
        events: list[Event] = []
        if not self._is_begun:
            self._is_begun = True
            events.append(Created(sequence_number=next(self._numbers), response=self._response))
            events.append(InProgress(sequence_number=next(self._numbers), response=self._response))
        for _, delta in deltas:
            events += self._push(delta)
        return b"".join(map(named_event, events))

    def last_part(self) -> bytes:
        failure, response = self._context.stream.failure, self._ended()
        number = next(self._numbers)
        if failure is not None:
            return named_event(Failed(sequence_number=number, response=response))
        kind = Completed if response.status == "completed" else Incomplete
        return named_event(kind(sequence_number=number, response=response))

    def whole(self) -> bytes:
        for _, delta in self._context.stream.take(sys.maxsize):
            self._push(delta)
        return msgspec.json.encode(self._ended())

    def _push(self, delta: Delta) -> list[Event]:
        events = [event for text, scores in self._pieces(delta) for event in self._items.push(text, scores)]
        if delta.finish:
            self._finish = delta.finish
            events += self._items.finish("incomplete" if delta.finish == "length" else "completed")
        return events

    def _pieces(self, delta: Delta) -> Iterator[tuple[str, list[ChosenTokenScore]]]:
        """Text and scores of its tokens; cut between tokens where some of them may be markup of calls."""
        first_char = self._num_chars
        self._num_chars += len(delta.text)
        if not self._context.is_scored:
            yield delta.text, []
            return
        scores = chat_logprobs(self._context.table, delta.tokens).content
        if self._context.ask.tools is None or not scores:
            yield delta.text, scores
            return
        cuts = [0, *(token.start_char - first_char for token in delta.tokens[1:]), len(delta.text)]
        for score, (start, end) in zip(scores, itertools.pairwise(cuts), strict=True):
            yield delta.text[start:end], [score]

    def _ended(self) -> Response:
        """The response as it stands at the end."""
        failure = self._context.stream.failure
        changes: dict[str, Any] = {"output": self._items.so_far()}
        if failure is not None:
            changes |= {"status": "failed", "error": error_of(failure)}
        elif self._finish == "length":
            changes |= {"status": "incomplete", "incomplete_details": IncompleteDetails(reason="max_output_tokens")}
        else:
            changes |= {"status": "completed", "completed_at": int(time.time())}
        if failure is None:
            changes["usage"] = usage_of(self._context)
        return msgspec.structs.replace(self._response, **changes)


def unanswered(body: ResponsesBody, context: Context) -> Response:
    """A response that has just begun, with the request's fields."""
    wanted = None if body.text is None else body.text.format
    return Response(
        id=context.reply_id,
        created_at=context.created_s,
        status="in_progress",
        instructions=body.instructions,
        max_output_tokens=body.max_output_tokens,
        model=context.model,
        output=[],
        parallel_tool_calls=body.parallel_tool_calls is not False,
        prompt_cache_key=body.prompt_cache_key,
        reasoning=ReasoningSetting(),
        safety_identifier=body.safety_identifier,
        temperature=1.0 if body.temperature is None else body.temperature,
        text=TextSetting(format=TextFormat() if wanted is None else wanted),
        tool_choice=body.tool_choice or "auto",
        tools=body.tools or [],
        top_logprobs=body.top_logprobs or 0,
        top_p=1.0 if body.top_p is None else body.top_p,
        user=body.user,
        metadata=body.metadata or {},
    )


def usage_of(context: Context) -> ResponseUsage:
    usage = context.usage()
    return ResponseUsage(
        input_tokens=usage.prompt_tokens,
        input_tokens_details=InputDetails(cached_tokens=usage.prompt_tokens_details.cached_tokens),
        output_tokens=usage.completion_tokens,
        output_tokens_details=OutputDetails(),
        total_tokens=usage.total_tokens,
    )


def error_of(failure: ApiError) -> ResponseError:
    """Told within a response whose head is out, so that no status can tell it."""
    code = CODES.get(failure.status, "server_error")
    return ResponseError(
        code=code, message=failure.message, type=failure.kind, param=failure.param, reason=failure.code
    )


def named_event(event: Event) -> bytes:
    """A server-sent event under the name of its type."""
    return f"event: {event.__struct_config__.tag}\n".encode() + envelope.event(msgspec.json.encode(event))
