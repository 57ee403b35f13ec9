"""POST /tokenize and /detokenize: the same tokens that a prompt would have, without generating."""

from __future__ import annotations

import array
from collections.abc import Callable, Iterator
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
from baton.services.router.http.access_log import CURRENT
from baton.services.router.http.body import Held
from baton.services.router.http.writing import AnswerWriter, ClientLost
from baton.services.router.text.token_table import TokenTable
from baton.services.router.tools.types import Tool
from baton.services.router.tools.validate import check_tools

PIECE_TOKENS = 1 << 16  #: written down within milliseconds
MAX_WHOLE_BYTES = 64 << 10  #: of an answer that goes out in one write


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


class TokenNames(dict[int, str]):
    """By token: made once, however often it comes."""

    def __init__(self, table: TokenTable) -> None:
        self._table = table

    def __missing__(self, token: int) -> str:
        name = self[token] = token_text(self._table, token)
        return name


def list_pieces(ids: array.array[int], shown: Callable[[int], object] | None = None) -> Iterator[bytes]:
    """The JSON list of ids, or of what is shown for them, in pieces: other threads have their turns between two."""
    for start in range(0, max(1, len(ids)), PIECE_TOKENS):
        piece = ids[start : start + PIECE_TOKENS]
        text = msgspec.json.encode(list(piece if shown is None else map(shown, piece)))
        yield (b"," if start else b"[") + text[1:-1]
    yield b"]"


class Tokenizing:
    """Handlers of both."""

    def __init__(self, front: FrontEnd, generation: Generation, config: HttpConfig) -> None:
        self._front = front
        self._generation = generation
        self._config = config

    async def tokenize(self, request: web.Request) -> web.StreamResponse:
        return await self._answer(request, TokenizeBody, self._source, self._tokens)

    async def detokenize(self, request: web.Request) -> web.StreamResponse:
        return await self._answer(request, DetokenizeBody, self._check_ids, self._text)

    async def _answer(self, request: web.Request, body_type: Any, check: Any, compute: Any) -> web.StreamResponse:
        self._generation.check_room()
        with self._front.entered():
            async with self._front.intake():
                with Held(self._generation.intake) as held:
                    found = await self._generation.read(request, held, body_type, check)
                    pieces = await self._front.beside(lambda pair: compute(*pair), found)
            return await self._send(request, pieces)

    async def _send(self, request: web.Request, pieces: list[bytes]) -> web.StreamResponse:
        """Piece by piece: megabytes that are handed to the socket at once would hold up every stream."""
        entry, num_bytes = CURRENT.get(), sum(map(len, pieces))
        writer = AnswerWriter(request, self._config.stall_timeout_s)
        headers = {"Content-Type": "application/json", **entry.headers()}
        response: web.StreamResponse
        try:
            if num_bytes <= MAX_WHOLE_BYTES:
                response = whole = web.Response(body=b"".join(pieces), headers=headers)
                await writer.send(whole)
            else:
                response = web.StreamResponse(headers=headers)
                response.content_length = num_bytes
                await writer.send_pieces(response, pieces)
        except ClientLost as lost:
            entry.code = lost.reason.name.lower()
        return response

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

    def _tokens(self, body: TokenizeBody, source: str | ChatPrompt) -> list[bytes]:
        model, limits = self._front.model, self._front.limits
        param = "prompt" if body.messages is None else "messages"
        max_tokens = self._config.max_body_bytes  # a text that the body may hold may be tokenized, whatever is served
        ids = array.array("i", model.encoder.tokens_of(source, max_tokens, param))
        head = msgspec.json.encode(Tokens(len(ids), (limits or model.info).max_model_len, []))
        pieces = [head.removesuffix(b"[]}"), *list_pieces(ids)]
        if body.return_token_strs:
            pieces += [b',"token_strs":', *list_pieces(ids, TokenNames(model.table).__getitem__)]
        return [*pieces, b"}"]

    def _check_ids(self, body: DetokenizeBody) -> None:
        check_token_ids("tokens", body.tokens, self._front.model.info.vocab_size)

    def _text(self, body: DetokenizeBody, _: None) -> list[bytes]:
        text = b"".join(map(self._front.model.table.shown, body.tokens)).decode("utf-8", "replace")
        return [msgspec.json.encode(Text(text))]
