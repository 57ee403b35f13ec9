"""The two completion endpoints: body → ask → stream → answer.

The head of a streamed answer goes out with its first tokens, so that whatever is refused before has a real status. A
failure after that is one `error` event, and the stream then ends without `[DONE]`.
"""

from __future__ import annotations

import asyncio
import secrets
import sys
import time
from collections.abc import Callable
from typing import TypeVar

from aiohttp import web

from baton.core.errors import InvariantViolated, Reason
from baton.services.router.api.replies import PREFIX, ReplyShape
from baton.services.router.api.types import Ask, ChatBody, CommonBody, CompletionBody
from baton.services.router.api.validate import chat_ask, completion_ask
from baton.services.router.config import HttpConfig
from baton.services.router.errors import ApiError, from_reason
from baton.services.router.front_end import FrontEnd
from baton.services.router.http.access_log import CURRENT, Entry
from baton.services.router.http.body import Held, Intake, decode_body, read_body
from baton.services.router.http.writing import AnswerWriter, ClientLost
from baton.services.router.streams import RequestStream

SCORED_TOKENS_PER_WRITE = 128  #: with log-probabilities a token costs some 50 microseconds of the loop's time
Body = TypeVar("Body", bound=CommonBody)


class Completions:
    """Handlers of both endpoints over one front end."""

    def __init__(self, front: FrontEnd, config: HttpConfig) -> None:
        self._front = front
        self._config = config
        self._intake = Intake(config.max_intake_bytes, config.retry_after_s)

    async def completion(self, request: web.Request) -> web.StreamResponse:
        return await self._answer(request, CompletionBody, completion_ask)

    async def chat(self, request: web.Request) -> web.StreamResponse:
        return await self._answer(request, ChatBody, chat_ask)

    async def _answer(
        self, request: web.Request, body_type: type[Body], to_ask: Callable[[Body, int, HttpConfig], Ask]
    ) -> web.StreamResponse:
        front = self._front
        if front.num_entered >= self._config.max_open_requests:
            numbers = {"open_requests": float(front.num_entered), "limit": float(self._config.max_open_requests)}
            raise from_reason(Reason.QUEUE_FULL, numbers, self._config.retry_after_s)
        with front.entered():
            async with front.intake():
                with Held(self._intake) as held:
                    body = decode_body(await read_body(request, held, self._config), body_type)
                    self._check_model(body.model)
                    ask = to_ask(body, front.model.info.vocab_size, self._config)
                    del body
                    stream = await front.enter(ask)
            return await self._reply(request, ask, stream)

    def _check_model(self, name: str) -> None:
        if name not in self._config.served_names:
            raise ApiError(404, f"the model {name!r} is not served here", param="model", code="model_not_found")

    async def _reply(self, request: web.Request, ask: Ask, stream: RequestStream) -> web.StreamResponse:
        """Write the answer; however this ends, the machine hears that the client's side is over."""
        entry = CURRENT.get()
        entry.reply_id = f"{PREFIX[ask.endpoint]}-{secrets.token_hex(12)}"
        entry.request = self._front.wire_id_of(stream.request_id)
        entry.user = ask.user
        name = self._config.served_names[0]
        shape = ReplyShape(ask, entry.reply_id, int(time.time()), name, self._front.model.table)
        writer = AnswerWriter(request, self._config.stall_timeout_s)
        reason = Reason.ABORTED
        try:
            if ask.is_stream:
                await self._stream(shape, stream, writer, entry)
            else:
                await self._whole(shape, stream, writer, entry)
        except ClientLost as lost:
            reason = lost.reason
            entry.code = reason.name.lower()
        finally:
            self._front.leave(stream, reason)
            entry.num_prompt_tokens = stream.num_prompt_tokens
            entry.num_output_tokens = stream.num_output_tokens
            entry.num_cached_tokens = stream.num_cached_tokens
            entry.num_attempts = stream.num_attempts
        if writer.response is None:
            raise InvariantViolated("a request is over and was not answered")
        return writer.response

    async def _whole(self, shape: ReplyShape, stream: RequestStream, writer: AnswerWriter, entry: Entry) -> None:
        while not stream.is_over:
            await stream.changed()
        if stream.failure is not None:
            raise stream.failure
        # Thousands of log-probabilities take a while to write down; a thread leaves the loop its turns.
        scored = shape.ask.num_logprobs >= 0
        body = await self._front.beside(shape.whole, stream) if scored else shape.whole(stream)
        await writer.send(web.Response(body=body, content_type="application/json", headers=entry.headers()))

    async def _stream(self, shape: ReplyShape, stream: RequestStream, writer: AnswerWriter, entry: Entry) -> None:
        max_tokens = SCORED_TOKENS_PER_WRITE if shape.ask.num_logprobs >= 0 else sys.maxsize
        is_complete = False
        while not is_complete:
            if stream.has_more:
                await asyncio.sleep(0)
            else:
                await stream.changed()
            data = shape.part(stream.take(max_tokens))
            is_complete = stream.is_over and not stream.has_more
            if is_complete:
                if stream.failure is not None:
                    entry.code = stream.failure.code or ""
                    if writer.response is None and not data:
                        raise stream.failure
                data += shape.last_part(stream)
            if data:
                if writer.response is None:
                    await writer.begin_stream(entry.headers())
                await writer.write(data)
        await writer.end()
