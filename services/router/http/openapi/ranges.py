"""Ranges of fields that the types do not say: they come from the router's limits or are checked together with others.

What depends on more than one field, or on the model's context, is not here: it is refused with a 400 that says so.
"""

from __future__ import annotations

from typing import Any

from baton.services.router.api.bodies import ChatBody, ChatMessage, CommonBody, CompletionBody
from baton.services.router.api.ranges import INT32_MAX, INT64
from baton.services.router.api.responses_ask import MAX_ID_CHARS, MAX_KEY_CHARS, MAX_METADATA, MAX_VALUE_CHARS
from baton.services.router.api.responses_bodies import (
    CallItem,
    FunctionChoice,
    FunctionTool,
    MessageItem,
    Reasoning,
    ResponsesBody,
    ResponseStreamOptions,
    ResultItem,
    TextConfig,
)
from baton.services.router.api.tokenizing import DetokenizeBody, TokenizeBody
from baton.services.router.config import HttpConfig
from baton.services.router.http.openapi.schemas import REF, Narrowing
from baton.services.router.tools.types import FunctionCall, FunctionName, FunctionSpec, ToolCall

TOKEN_ID_KEY = "^(0|[1-9][0-9]{0,9})$"  #: of an object's member that is named by a token
FUNCTION_NAME: Narrowing = {"string": {"pattern": "^[a-zA-Z0-9_-]{1,64}$"}}
SOME_TEXT: Narrowing = {"string": {"minLength": 1}}
FALSE: Narrowing = {"boolean": {"enum": [False]}}
NOTHING: Narrowing = {"whole": {"type": "null"}}


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
        ChatMessage: {
            "content": {"array": {"maxItems": config.max_content_parts}},
            "tool_calls": {"array": {"maxItems": config.max_tools}},
        },
        FunctionSpec: {"name": FUNCTION_NAME},
        FunctionName: {"name": FUNCTION_NAME},
        FunctionCall: {"name": SOME_TEXT},
        ToolCall: {"id": SOME_TEXT},
        **responses(config, common(config, token) | {"model": names}),
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


def responses(config: HttpConfig, common: dict[str, Narrowing]) -> dict[type, dict[str, Narrowing]]:
    """Of /v1/responses, which has some of the common fields, and fields with one value only."""
    shared = ("model", "temperature", "top_p", "user", "seed", "cache_salt", "priority", "timeout")
    items = [{"$ref": REF + item.__name__} for item in (MessageItem, CallItem, ResultItem)]
    several = {"type": "array", "minItems": 1, "maxItems": config.max_messages, "items": {"anyOf": items}}
    parts: Narrowing = {"array": {"maxItems": config.max_content_parts}}
    return {
        ResponsesBody: {name: common[name] for name in shared}
        | {
            "input": {"whole": {"anyOf": [{"type": "string"}, several]}},
            "max_output_tokens": number(1, INT32_MAX),
            "top_logprobs": number(0, config.max_logprobs),
            "tools": {"array": {"maxItems": config.max_tools}},
            "metadata": {
                "object": {"maxProperties": MAX_METADATA, "propertyNames": {"maxLength": MAX_KEY_CHARS}},
                "values": text(0, MAX_VALUE_CHARS),
            },
            **dict.fromkeys(("safety_identifier", "prompt_cache_key"), text(0, MAX_ID_CHARS)),
            **dict.fromkeys(("store", "background"), FALSE),
            **dict.fromkeys(("previous_response_id", "conversation", "prompt", "max_tool_calls"), NOTHING),
            "truncation": {"whole": {"enum": ["disabled", None]}},
        },
        TextConfig: {"verbosity": NOTHING},
        Reasoning: {"effort": NOTHING, "summary": NOTHING},
        ResponseStreamOptions: {"include_obfuscation": FALSE},
        MessageItem: {"type": {"optional": True}, "content": parts},
        ResultItem: {"output": parts},
        CallItem: {"call_id": SOME_TEXT, "name": SOME_TEXT},
        FunctionTool: {"type": {"optional": True}, "name": FUNCTION_NAME},
        FunctionChoice: {"name": FUNCTION_NAME},
    }
