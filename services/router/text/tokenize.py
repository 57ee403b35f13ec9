"""From an `Ask` to the tokens and block hashes of its prompt. Everything here runs in a thread, but for
short prompts of token ids, which need no tokenizer.

The tokenizer releases the GIL while it works, so that a huge prompt delays no stream.
"""

from __future__ import annotations

import array
import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple, TypeVar

from baton.core.kv.block_hash import hash_chain, root_hash
from baton.services.router.api.ask import Ask, ChatPrompt, text_bytes
from baton.services.router.api.ranges import at_most
from baton.services.router.config import Limits
from baton.services.router.errors import ApiError, invalid
from baton.services.router.text.chat_template import ChatTemplate
from baton.services.router.text.control_tokens import ControlTokens
from baton.services.router.text.echo import EchoedPrompt, echo_prompt
from baton.services.router.text.text_tokens import TextTokens
from baton.services.router.text.token_table import TokenTable

Result = TypeVar("Result")
MAX_BYTES_ON_LOOP = 16 << 10  #: of token ids: hashing them takes microseconds, and the way to a thread and back more
MAX_SHOWN_CHARS = 8 << 20  #: of all prompts that one answer shows, once for each choice


class Prompt(NamedTuple):
    tokens: bytes  #: int32[num_tokens]
    num_tokens: int
    root: bytes  #: 16 bytes
    hashes: bytes  #: 16 bytes for each full block
    echoed: EchoedPrompt | None = None  #: where the answer shows it

    def token_ids(self) -> list[int]:
        return array.array("i", self.tokens).tolist()


def context_exceeded(param: str, num_tokens: int, limit: int, at_least: bool = False) -> ApiError:
    """The prompt alone is over its limit."""
    count = f"at least {num_tokens}" if at_least else str(num_tokens)
    return invalid(f"the prompt has {count} tokens, the limit is {limit}", param, "context_length_exceeded")


class PromptEncoder:
    """Tokenizer, template and block hashes of one model under one deployment key."""

    def __init__(self, tokenizer_json: str, table: TokenTable, template: ChatTemplate | None, hash_key: bytes) -> None:
        self._text_tokens = TextTokens(tokenizer_json, table.control.values())
        self.library = self._text_tokens.library
        self._control = ControlTokens(tuple(table.control.values()))
        self._table = table
        self._max_piece_bytes = table.max_piece_bytes
        self._template = template
        self._hash_key = hash_key

    def encode(self, ask: Ask, limits: Limits, tenant_salt: bytes = b"") -> list[Prompt]:
        """All prompts of a request. Raises the 400 for one that is empty, too long, or refused by the template."""
        salt = tenant_salt + ask.cache_salt.encode()
        root = root_hash(self._hash_key, limits.layout_fingerprint, salt, b"")
        prompts = []
        num_shown = 0
        for source in ask.prompts:
            prompt = self._encode_one(ask, limits, root, source)
            num_shown += len(prompt.echoed.text) * ask.num_choices if prompt.echoed else 0
            at_most(ask.blame.prompt, num_shown, MAX_SHOWN_CHARS, "characters to show in all answers")
            prompts.append(prompt)
        return prompts

    def tokens_of(self, source: str | bytes | ChatPrompt, max_tokens: int, param: str) -> bytes:
        """int32 ids of one prompt; what has more than `max_tokens` for certain is refused before it is tokenized."""
        if isinstance(source, bytes):
            return source
        self._check_bytes(text_bytes(source), max_tokens, param)
        if isinstance(source, str):
            return self._text_tokens.ids(source, adds_special=True)
        return self._tokens_of_chat(source, param)

    def _encode_one(self, ask: Ask, limits: Limits, root: bytes, source: str | bytes | ChatPrompt) -> Prompt:
        tokens = self.tokens_of(source, limits.max_prompt_len, ask.blame.prompt)
        num_tokens = len(tokens) // 4
        if num_tokens == 0:
            raise invalid("the prompt has no tokens", ask.blame.prompt, "empty")
        if num_tokens > limits.max_prompt_len:
            raise context_exceeded(ask.blame.prompt, num_tokens, limits.max_prompt_len)
        echoed = None
        if ask.echo:
            echoed = echo_prompt(self._table, array.array("i", tokens), source if isinstance(source, str) else None)
        return Prompt(tokens, num_tokens, root, hash_chain(self._hash_key, root, tokens, limits.block_size), echoed)

    def _tokens_of_chat(self, chat: ChatPrompt, param: str) -> bytes:
        if self._template is None:
            raise invalid("this model has no chat template", param, "no_chat_template")
        mark = self._control.new_mark()
        hidden = ChatPrompt(*(self._control.hide_all(part, mark) for part in chat))
        max_chars = 2 * text_bytes(hidden) + 1024 * len(hidden.messages) + 65536
        pieces = self._control.split(self._template.render(hidden, max_chars, param), mark)
        return b"".join(self._text_tokens.ids(text, is_ordinary=is_text) for text, is_text in pieces)

    def _check_bytes(self, num_bytes: int, max_tokens: int, param: str) -> None:
        """Refuse without tokenizing what cannot fit whatever its tokens are (a normalizer might shorten it)."""
        least = -(-num_bytes // self._max_piece_bytes)
        if not self._text_tokens.has_normalizer and least > max_tokens:
            raise context_exceeded(param, least, max_tokens, at_least=True)


class TokenizerThreads:
    """Runs an encoder beside the event loop; requests wait for a thread in the order they came."""

    def __init__(self, encoder: PromptEncoder, num_threads: int) -> None:
        self._encoder = encoder
        self._pool = ThreadPoolExecutor(num_threads, thread_name_prefix="tokenizer")

    async def encode(self, ask: Ask, limits: Limits, tenant_salt: bytes = b"") -> list[Prompt]:
        if all(isinstance(source, bytes) for source in ask.prompts):
            num_bytes = sum(len(source) for source in ask.prompts if isinstance(source, bytes))
            if num_bytes <= MAX_BYTES_ON_LOOP:
                return self._encoder.encode(ask, limits, tenant_salt)
        return await self.run(self._encoder.encode, ask, limits, tenant_salt)

    async def run(self, compute: Callable[..., Result], *arguments: Any) -> Result:
        return await asyncio.get_running_loop().run_in_executor(self._pool, compute, *arguments)

    def close(self) -> None:
        """Waits for what runs; what has not begun is dropped."""
        self._pool.shutdown(cancel_futures=True)
