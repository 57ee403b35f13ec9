"""Ranges of fields that the types do not say: they come from the router's limits or are checked together with others.

What depends on more than one field, or on the model's context, is not here: it is refused with a 400 that says so.
"""

from __future__ import annotations

from typing import Any

from baton.services.router.api.bodies import ChatBody, ChatMessage, CommonBody, CompletionBody
from baton.services.router.api.ranges import INT32_MAX, INT64
from baton.services.router.api.tokenizing import DetokenizeBody, TokenizeBody
from baton.services.router.config import HttpConfig
from baton.services.router.http.openapi.schemas import Narrowing
from baton.services.router.tools.types import FunctionCall, FunctionName, FunctionSpec, ToolCall

TOKEN_ID_KEY = "^(0|[1-9][0-9]{0,9})$"  #: of an object's member that is named by a token
FUNCTION_NAME = "^[a-zA-Z0-9_-]{1,64}$"


def number(low: float, high: float) -> Narrowing:
    """Closed."""
    return {"number": {"minimum": low, "maximum": high}}


def positive(high: float) -> Narrowing:
    return {"number": {"exclusiveMinimum": 0, "maximum": high}}


def text(low: int, high: int) -> Narrowing:
    """Characters."""
    return {"string": {"minLength": low, "maxLength": high}}


def ranges(config: HttpConfig, vocab_size: int) -> dict[type, dict[str, Narrowing]]:
    """By struct and field."""
    names: Narrowing = {"string": {"enum": list(config.served_names)}}
    token = number(0, vocab_size - 1)
    return {
        CommonBody: common(config, token) | {"model": names},
        CompletionBody: {
            "max_tokens": number(0, INT32_MAX),  # 0 with `echo`
            "logprobs": number(0, config.max_logprobs),
            "best_of": number(1, config.max_choices),
            "suffix": {"string": {"maxLength": 0}},
            "prompt": prompt(config, token),
        },
        ChatBody: {
            "max_tokens": number(1, INT32_MAX),
            "max_completion_tokens": number(1, INT32_MAX),
            "top_logprobs": number(0, config.max_logprobs),
            "messages": {"array": {"minItems": 1, "maxItems": config.max_messages}},
            "tools": {"array": {"maxItems": config.max_tools}},
        },
        TokenizeBody: {"model": names, "messages": {"array": {"minItems": 1, "maxItems": config.max_messages}}},
        DetokenizeBody: {"model": names, "tokens": {"items": token}},
        ChatMessage: {"content": {"array": {"maxItems": config.max_content_parts}}},
        FunctionSpec: {"name": {"string": {"pattern": FUNCTION_NAME}}},
        FunctionName: {"name": {"string": {"pattern": FUNCTION_NAME}}},
        FunctionCall: {"name": {"string": {"minLength": 1}}},
        ToolCall: {"id": {"string": {"minLength": 1}}},
    }


def common(config: HttpConfig, token: Narrowing) -> dict[str, Narrowing]:
    """Of the fields that both endpoints take."""
    stop = text(1, config.max_stop_chars)
    return {
        "min_tokens": number(0, INT32_MAX),
        "temperature": number(0, 2),
        "top_p": positive(1),
        "top_k": number(-1, INT32_MAX),
        "min_p": number(0, 1),
        "presence_penalty": number(-2, 2),
        "frequency_penalty": number(-2, 2),
        "repetition_penalty": number(0.01, 10),
        "seed": number(-INT64, INT64 - 1),
        "stop": {**stop, "array": {"maxItems": config.max_stop_strings}, "items": stop},
        "stop_token_ids": {"array": {"maxItems": config.max_stop_token_ids}, "items": token},
        "n": number(1, config.max_choices),
        "logit_bias": {
            "object": {"maxProperties": config.max_logit_bias, "propertyNames": {"pattern": TOKEN_ID_KEY}},
            "values": number(-100, 100),
        },
        "prompt_logprobs": number(0, config.max_logprobs),
        "guided_choice": {"array": {"minItems": 1, "maxItems": config.max_guided_choices}},
        "user": text(0, 256),
        "cache_salt": text(1, config.max_salt_bytes),  # its bytes count, which the schema cannot say
        "priority": number(0, config.max_priority),
        "timeout": positive(config.max_timeout_s),
    }


def prompt(config: HttpConfig, token: Narrowing) -> Narrowing:
    """Not empty; a list's items are all of one kind."""
    token_ids: dict[str, Any] = {"type": "array", "minItems": 1, "items": {"type": "integer", **token["number"]}}
    texts = {"type": "string", "minLength": 1}
    several = {"type": "array", "minItems": 1, "maxItems": config.max_prompts}
    return {"whole": {"anyOf": [texts, token_ids, {**several, "items": texts}, {**several, "items": token_ids}]}}
