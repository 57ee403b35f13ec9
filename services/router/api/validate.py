"""Ranges: from a typed body to an `Ask`, or a 400 that names the field and the number. Allocates nothing large."""

from __future__ import annotations

import array
import math
from typing import Any, TypeVar

from baton.services.router.api.types import Ask, ChatBody, ChatMessage, CommonBody, CompletionBody
from baton.services.router.config import HttpConfig
from baton.services.router.errors import invalid

Number = TypeVar("Number", int, float)
COMPLETION_MAX_TOKENS = 16  #: as OpenAI's API has it
GREEDY_BELOW = 0.001  #: a temperature below it counts as 0: dividing by it would overflow
INT64 = 1 << 63
INT32_MAX = (1 << 31) - 1


def bound(number: float) -> str:
    """Whole numbers are shown whole: a client has to hit them."""
    return str(number) if isinstance(number, int) else f"{number:g}"


def within(param: str, value: Number | None, default: Number, low: float, high: float) -> Number:
    """`value`, or `default` for None; closed interval."""
    if value is None:
        return default
    if not low <= value <= high or not math.isfinite(value):
        raise invalid(f"{param} is {value}, must be from {bound(low)} to {bound(high)}", param, "out_of_range")
    return value


def at_most(param: str, num: int, limit: int, what: str) -> None:
    if num > limit:
        raise invalid(f"{param} has {num} {what}, the limit is {limit}", param, "too_many")


def check_token_ids(param: str, ids: list[int], vocab_size: int) -> None:
    """Every id is one that the model knows."""
    if ids and not (min(ids) >= 0 and max(ids) < vocab_size):
        wrong = next(token for token in ids if not 0 <= token < vocab_size)
        raise invalid(f"{param} holds token {wrong}, ids are from 0 to {vocab_size - 1}", param, "token_out_of_range")


def stop_strings(body: CommonBody, config: HttpConfig) -> tuple[str, ...]:
    stops = [body.stop] if isinstance(body.stop, str) else body.stop or []
    at_most("stop", len(stops), config.max_stop_strings, "strings")
    for stop in stops:
        if not stop:
            raise invalid("stop holds an empty string", "stop", "empty")
        at_most("stop", len(stop), config.max_stop_chars, "characters in one string")
    return tuple(dict.fromkeys(stops))


def output_length(body: CommonBody, config: HttpConfig) -> dict[str, Any]:
    """`max_tokens`, under both names, and `min_tokens`."""
    max_tokens, param = body.max_tokens, "max_tokens"
    if isinstance(body, ChatBody) and body.max_completion_tokens is not None:
        if max_tokens not in (None, body.max_completion_tokens):
            raise invalid("max_tokens and max_completion_tokens differ", "max_completion_tokens", "conflict")
        max_tokens, param = body.max_completion_tokens, "max_completion_tokens"
    if max_tokens is not None:
        within(param, max_tokens, 1, 1, INT32_MAX)
    min_tokens = within("min_tokens", body.min_tokens, 0, 0, INT32_MAX)
    if max_tokens is not None and min_tokens > max_tokens:
        raise invalid(f"min_tokens is {min_tokens}, {param} only {max_tokens}", "min_tokens", "out_of_range")
    return {"max_tokens": max_tokens, "min_tokens": min_tokens}


def sampling_fields(body: CommonBody, vocab_size: int, config: HttpConfig) -> dict[str, Any]:
    """What shapes the distribution and ends it."""
    temperature = within("temperature", body.temperature, 1.0, 0, 2)
    top_k = within("top_k", body.top_k, 0, -1, INT32_MAX)
    top_p = within("top_p", body.top_p, 1.0, 0, 1)
    if top_p == 0:
        raise invalid("top_p is 0, must be greater", "top_p", "out_of_range")
    repetition = within("repetition_penalty", body.repetition_penalty, 1.0, 0.01, 10)
    stop_ids, bias = body.stop_token_ids or [], body.logit_bias or {}
    at_most("stop_token_ids", len(stop_ids), config.max_stop_token_ids, "ids")
    at_most("logit_bias", len(bias), config.max_logit_bias, "ids")
    check_token_ids("stop_token_ids", stop_ids, vocab_size)
    check_token_ids("logit_bias", list(bias), vocab_size)
    for value in bias.values():
        within("logit_bias", value, 0.0, -100, 100)
    return {
        "temperature": temperature if temperature >= GREEDY_BELOW else 0.0,
        "top_k": 0 if top_k in (0, -1) or top_k >= vocab_size else top_k,
        "top_p": top_p,
        "min_p": within("min_p", body.min_p, 0.0, 0, 1),
        "presence_penalty": within("presence_penalty", body.presence_penalty, 0.0, -2, 2),
        "frequency_penalty": within("frequency_penalty", body.frequency_penalty, 0.0, -2, 2),
        "repetition_penalty": repetition,
        "seed": body.seed if body.seed is None else within("seed", body.seed, 0, -INT64, INT64 - 1),
        "stop": stop_strings(body, config),
        "stop_token_ids": tuple(dict.fromkeys(stop_ids)),
        "ignore_eos": bool(body.ignore_eos),
        "logit_bias": tuple(sorted(bias.items())),
    }


def common_fields(body: CommonBody, vocab_size: int, config: HttpConfig) -> dict[str, Any]:
    """Everything that both endpoints have."""
    if body.stream_options is not None and not body.stream:
        raise invalid("stream_options needs stream", "stream_options", "conflict")
    salt = body.cache_salt
    if salt is not None and not 1 <= len(salt.encode()) <= config.max_salt_bytes:
        limit = f"must have from 1 to {config.max_salt_bytes} bytes"
        raise invalid(f"cache_salt has {len(salt.encode())} bytes, {limit}", "cache_salt", "out_of_range")
    timeout_s = within("timeout", body.timeout, config.default_timeout_s, 0, config.max_timeout_s)
    if timeout_s == 0:
        raise invalid("timeout is 0, must be greater", "timeout", "out_of_range")
    at_most("user", len(body.user or ""), 256, "characters")
    return {
        **output_length(body, config),
        **sampling_fields(body, vocab_size, config),
        "num_choices": within("n", body.n, 1, 1, config.max_choices),
        "is_stream": bool(body.stream),
        "include_usage": bool(body.stream_options and body.stream_options.include_usage),
        "user": body.user or "",
        "cache_salt": salt or "",
        "priority_class": within("priority", body.priority, 0, 0, config.max_priority),
        "timeout_s": float(timeout_s),
    }


def single_prompt(prompt: str | list[int | str | list[int]], vocab_size: int) -> str | bytes:
    """The one prompt: text, or its token ids as int32."""
    only: str | list[Any] = prompt
    if isinstance(prompt, list) and len(prompt) == 1 and not isinstance(prompt[0], int):
        only = prompt[0]
    if not only:
        raise invalid("prompt is empty", "prompt", "empty")
    if isinstance(only, str):
        return only
    other_at = next((index for index, token in enumerate(only) if type(token) is not int), None)
    if other_at is not None:
        if any(type(token) is int for token in only):
            raise invalid(
                f"prompt[{other_at}] is no token id and others are: a prompt is one text or token ids",
                f"prompt[{other_at}]",
                "invalid_type",
            )
        raise invalid(f"prompt holds {len(only)} prompts, one is supported", "prompt", "unsupported_value")
    check_token_ids("prompt", only, vocab_size)
    return array.array("i", only).tobytes()


def completion_ask(body: CompletionBody, vocab_size: int, config: HttpConfig) -> Ask:
    if body.echo:
        raise invalid("echo is not supported", "echo", "unsupported_parameter")
    if body.suffix:
        raise invalid("suffix is not supported", "suffix", "unsupported_parameter")
    if body.best_of not in (None, body.n or 1):
        raise invalid("best_of other than n is not supported", "best_of", "unsupported_parameter")
    prompt = single_prompt(body.prompt, vocab_size)
    return Ask(
        endpoint="completion",
        text=prompt if isinstance(prompt, str) else None,
        token_ids=prompt if isinstance(prompt, bytes) else None,
        max_tokens_default=COMPLETION_MAX_TOKENS,
        num_logprobs=within("logprobs", body.logprobs, -1, 0, config.max_logprobs),
        **common_fields(body, vocab_size, config),
    )


def message_text(index: int, message: ChatMessage, config: HttpConfig) -> tuple[str, str]:
    """(role, text) of a message; parts are joined without anything between them."""
    if isinstance(message.content, str):
        return message.role, message.content
    at_most(f"messages[{index}].content", len(message.content), config.max_content_parts, "parts")
    return message.role, "".join(part.text for part in message.content)


def chat_ask(body: ChatBody, vocab_size: int, config: HttpConfig) -> Ask:
    if not body.messages:
        raise invalid("messages is empty", "messages", "empty")
    at_most("messages", len(body.messages), config.max_messages, "messages")
    if body.top_logprobs is not None and not body.logprobs:
        raise invalid("top_logprobs needs logprobs", "top_logprobs", "conflict")
    top = within("top_logprobs", body.top_logprobs, 0, 0, config.max_logprobs)
    return Ask(
        endpoint="chat",
        messages=tuple(message_text(index, message, config) for index, message in enumerate(body.messages)),
        max_tokens_default=None,
        num_logprobs=top if body.logprobs else -1,
        **common_fields(body, vocab_size, config),
    )
