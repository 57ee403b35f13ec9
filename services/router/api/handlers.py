"""The endpoints that generate: body → ask → stream → answer.

The head of a streamed answer goes out with its first tokens, so that whatever is refused before has a real status. A
failure after that is one `error` event, and the stream then ends without `[DONE]`.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Awaitable, Callable
from typing import Any, Generic, NamedTuple, TypeVar

from aiohttp import web

from baton.core.errors import InvariantViolated, Reason
from baton.services.router.api.ask import Ask
from baton.services.router.api.bodies import ChatBody, CompletionBody
from baton.services.router.api.chat_ask import chat_ask
from baton.services.router.api.chat_shape import ChatShape
from baton.services.router.api.completion_ask import completion_ask
from baton.services.router.api.completion_shape import CompletionShape
from baton.services.router.api.envelope import Context, Shape
from baton.services.router.api.streaming import Streaming
from baton.services.router.config import HttpConfig
from baton.services.router.errors import ApiError, from_reason, invalid
from baton.services.router.front_end import FrontEnd
from baton.services.router.http.access_log import CURRENT, Entry
from baton.services.router.http.auth import ANYBODY, CLIENT
from baton.services.router.http.body import Held, Intake, decode_body, read_body
from baton.services.router.http.writing import AnswerWriter, ClientLost
from baton.services.router.streams import RequestStream
from baton.services.router.text.model_folder import RouterModel
from baton.services.router.tools.errors import ToolsRefused

Body = TypeVar("Body")


class Endpoint(NamedTuple, Generic[Body]):
    """One that generates."""

    prefix: str  #: of the ids of its answers
    body_type: type[Body]
    to_ask: Callable[[Body, RouterModel, HttpConfig], Ask]
    shape: Callable[[Body, Context], Shape]


COMPLETIONS = Endpoint(
    "cmpl-",
    CompletionBody,
    lambda body, model, config: completion_ask(body, model.info.vocab_size, config),
    lambda _, context: CompletionShape(context),
)
CHAT = Endpoint(
    "chatcmpl-",
    ChatBody,
    lambda body, model, config: chat_ask(body, model.info.vocab_size, config, model.tool_format),
    lambda _, context: ChatShape(context),
)


class Generation:
    """Handlers of the endpoints that generate, over one front end."""

    def __init__(self, front: FrontEnd, config: HttpConfig) -> None:
        self.intake = Intake(config.max_intake_bytes, config.retry_after_s)  #: of all that read bodies
        self._front = front
        self._config = config

    def handler(self, endpoint: Endpoint[Any]) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
        """What answers a request to this endpoint."""

        async def answer(request: web.Request) -> web.StreamResponse:
            return await self._answer(request, endpoint)

        return answer

    async def read(self, request: web.Request, held: Held, body_type: type[Body], check: Callable[[Body], Any]) -> Any:
        """The body's fields, and what `check` made of them; a large body is read by a thread, not by the loop."""
        data = await read_body(request, held, self._config)

        def understand(data: bytes) -> Any:
            body = decode_body(data, body_type)
            self._check_model(getattr(body, "model", None))
            try:
                return body, check(body)
            except ToolsRefused as refused:
                raise invalid(str(refused), refused.param, refused.code) from None

        is_large = len(data) > self._config.max_body_bytes_on_loop
        return await self._front.beside(understand, data) if is_large else understand(data)

    def check_room(self) -> None:
        """Raises the answer QUEUE_FULL when as many requests are open as may be."""
        num_open, limit = self._front.num_entered, self._config.max_open_requests
        if num_open >= limit:
            numbers = {"open_requests": float(num_open), "limit": float(limit)}
            raise from_reason(Reason.QUEUE_FULL, numbers, self._config.retry_after_s)

    async def _answer(self, request: web.Request, endpoint: Endpoint[Any]) -> web.StreamResponse:
        front, config = self._front, self._config
        self.check_room()
        with front.entered():
            async with front.intake():
                with Held(self.intake) as held:
                    body, ask = await self.read(
                        request, held, endpoint.body_type, lambda body: endpoint.to_ask(body, front.model, config)
                    )
                    stream = await front.enter(ask, request.get(CLIENT, ANYBODY))
            return await self._reply(request, endpoint, body, ask, stream)

    def _check_model(self, name: str | None) -> None:
        if name is not None and name not in self._config.served_names:
            raise ApiError(404, f"the model {name!r} is not served here", param="model", code="model_not_found")

    async def _reply(
        self, request: web.Request, endpoint: Endpoint[Any], body: Any, ask: Ask, stream: RequestStream
    ) -> web.StreamResponse:
        """Write the answer; however this ends, the machine hears that the client's side is over."""
        entry = CURRENT.get()
        entry.reply_id = endpoint.prefix + secrets.token_hex(12)
        entry.request = self._front.wire_id_of(stream.first_id)
        entry.user = ask.user
        name = self._config.served_names[0]
        context = Context(ask, stream, self._front.model.table, entry.reply_id, int(time.time()), name)
        shape = endpoint.shape(body, context)
        writer = AnswerWriter(request, self._config.stall_timeout_s)
        reason = Reason.ABORTED
        try:
            if ask.is_stream:
                await Streaming(shape, stream, writer, entry, is_scored=_is_scored(ask)).run()
            else:
                await self._whole(ask, shape, stream, writer, entry)
        except ClientLost as lost:
            reason = lost.reason
            entry.code = reason.name.lower()
        finally:
            self._front.leave(stream, reason)
            entry.num_prompt_tokens = stream.num_prompt_tokens
            entry.num_output_tokens = stream.num_output_tokens
            entry.num_cached_tokens = stream.num_cached_tokens
            entry.num_attempts = stream.num_attempts
            entry.placement = stream.placement
        if writer.response is None:
            raise InvariantViolated("a request is over and was not answered")
        return writer.response

    async def _whole(self, ask: Ask, shape: Shape, stream: RequestStream, writer: AnswerWriter, entry: Entry) -> None:
        while not stream.is_over:
            await stream.changed()
        if stream.failure is not None:
            raise stream.failure
        # Thousands of log-probabilities take a while to write down; a thread leaves the loop its turns.
        body = await self._front.beside(_whole, shape) if _is_scored(ask) else shape.whole()
        entry.placement = stream.placement
        await writer.send(web.Response(body=body, content_type="application/json", headers=entry.headers()))


def _is_scored(ask: Ask) -> bool:
    return ask.sampling.num_logprobs >= 0 or ask.scores_prompt


def _whole(shape: Shape) -> bytes:
    return shape.whole()
