"""POST /tokenize and /detokenize: the same tokens that a prompt would have, without generating."""

from __future__ import annotations

import array
from typing import Any

import msgspec
from aiohttp import web

from baton.services.router.api.ask import ChatPrompt
from baton.services.router.api.bodies import ChatMessage
from baton.services.router.api.chat_ask import NO_TOOLS, chat_prompt, tool_limits
from baton.services.router.api.handlers import Generation
from baton.services.router.api.logprobs import token_text
from baton.services.router.api.ranges import check_token_ids
from baton.services.router.config import HttpConfig
from baton.services.router.errors import invalid
from baton.services.router.front_end import FrontEnd
from baton.services.router.http.body import Held
from baton.services.router.tools.types import Tool
from baton.services.router.tools.validate import check_tools


class TokenizeBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A text, or a conversation."""

    model: str | None = None
    prompt: str | None = None
    messages: list[ChatMessage] | None = None
    tools: list[Tool] | None = None
    return_token_strs: bool | None = None


class DetokenizeBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Token ids."""

    model: str | None = None
    tokens: list[int]


class Tokens(msgspec.Struct, frozen=True):
    """The answer of /tokenize."""

    count: int
    max_model_len: int
    tokens: list[int]
    token_strs: list[str] | msgspec.UnsetType = msgspec.UNSET


class Text(msgspec.Struct, frozen=True):
    """The answer of /detokenize."""

    prompt: str


class Tokenizing:
    """Handlers of both."""

    def __init__(self, front: FrontEnd, generation: Generation, config: HttpConfig) -> None:
        self._front = front
        self._generation = generation
        self._config = config

    async def tokenize(self, request: web.Request) -> web.Response:
        return await self._answer(request, TokenizeBody, self._source, self._tokens)

    async def detokenize(self, request: web.Request) -> web.Response:
        return await self._answer(request, DetokenizeBody, self._check_ids, self._text)

    async def _answer(self, request: web.Request, body_type: Any, check: Any, compute: Any) -> web.Response:
        self._generation.check_room()
        with self._front.entered():
            async with self._front.intake():
                with Held(self._generation.intake) as held:
                    found = await self._generation.read(request, held, body_type, check)
                    answer = await self._front.beside(lambda pair: msgspec.json.encode(compute(*pair)), found)
        return web.Response(body=answer, content_type="application/json")

    def _source(self, body: TokenizeBody) -> str | ChatPrompt:
        if (body.prompt is None) == (body.messages is None):
            raise invalid("exactly one of prompt and messages is needed", "prompt", "conflict")
        tools = body.tools or []
        if body.messages is None:
            if tools:
                raise invalid("tools needs messages", "tools", "conflict")
            return body.prompt or ""
        has_tools = self._front.model.tool_format is not None
        if tools and not has_tools:
            raise invalid(NO_TOOLS, "tools", "unsupported_parameter")
        check_tools(tools, tool_limits(self._config))
        return chat_prompt(body.messages, tools, self._config, has_tools=has_tools)

    def _tokens(self, body: TokenizeBody, source: str | ChatPrompt) -> Tokens:
        model, limits = self._front.model, self._front.limits
        param = "prompt" if body.messages is None else "messages"
        max_tokens = self._config.max_body_bytes  # a text that the body may hold may be tokenized, whatever is served
        ids = array.array("i", model.encoder.tokens_of(source, max_tokens, param)).tolist()
        names = [token_text(model.table, token) for token in ids] if body.return_token_strs else msgspec.UNSET
        return Tokens(len(ids), (limits or model.info).max_model_len, ids, names)

    def _check_ids(self, body: DetokenizeBody) -> None:
        check_token_ids("tokens", body.tokens, self._front.model.info.vocab_size)

    def _text(self, body: DetokenizeBody, _: None) -> Text:
        return Text(b"".join(map(self._front.model.table.shown, body.tokens)).decode("utf-8", "replace"))
