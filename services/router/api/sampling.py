"""From what both endpoints have in common to the fields of an `Ask`. Allocates nothing large."""

from __future__ import annotations

from typing import Any

from baton.core.wire.sampling import SamplingParams
from baton.services.router.api.bodies import ChatBody, CommonBody
from baton.services.router.api.ranges import INT32_MAX, INT64, at_most, check_token_ids, positive, within
from baton.services.router.config import HttpConfig
from baton.services.router.errors import invalid

GREEDY_BELOW = 0.001  #: a temperature below it counts as 0: dividing by it would overflow
ALL_CANDIDATES = (0, -1)  #: values of `top_k`


def stop_strings(body: CommonBody, config: HttpConfig) -> tuple[str, ...]:
    stops = [body.stop] if isinstance(body.stop, str) else body.stop or []
    at_most("stop", len(stops), config.max_stop_strings, "strings")
    for stop in stops:
        if not stop:
            raise invalid("stop holds an empty string", "stop", "empty")
        at_most("stop", len(stop), config.max_stop_chars, "characters in one string")
    return tuple(dict.fromkeys(stops))


def asked_length(body: CommonBody) -> tuple[int | None, str]:
    """`max_tokens` under whichever of its names it came, and that name."""
    if not isinstance(body, ChatBody) or body.max_completion_tokens is None:
        return body.max_tokens, "max_tokens"
    if body.max_tokens not in (None, body.max_completion_tokens):
        raise invalid("max_tokens and max_completion_tokens differ", "max_completion_tokens", "conflict")
    return body.max_completion_tokens, "max_completion_tokens"


def output_length(body: CommonBody, config: HttpConfig, least: int, default: int | None) -> dict[str, Any]:
    """At least `least` tokens may be asked for; without a wish it is `default`, or all that there is room for."""
    max_tokens, param = asked_length(body)
    if max_tokens is not None:
        within(param, max_tokens, 1, least, INT32_MAX)
    min_tokens = within("min_tokens", body.min_tokens, 0, 0, INT32_MAX)
    if max_tokens is not None and min_tokens > max_tokens:
        limit = f"must be at most {param}, which is {max_tokens}"
        raise invalid(f"min_tokens is {min_tokens}, {limit}", "min_tokens", "out_of_range")
    return {"max_tokens": max_tokens, "max_tokens_default": config.default_max_tokens or default}


def sampling_params(
    body: CommonBody, num_logprobs: int, num_prompt_logprobs: int, grammar: str, vocab_size: int, config: HttpConfig
) -> SamplingParams:
    """What shapes the distribution and ends it."""
    temperature = within("temperature", body.temperature, 1.0, 0, 2)
    top_k = within("top_k", body.top_k, 0, -1, INT32_MAX)
    stop_ids, bias = body.stop_token_ids or [], body.logit_bias or {}
    at_most("stop_token_ids", len(stop_ids), config.max_stop_token_ids, "ids")
    at_most("logit_bias", len(bias), config.max_logit_bias, "ids")
    check_token_ids("stop_token_ids", stop_ids, vocab_size)
    check_token_ids("logit_bias", list(bias), vocab_size)
    for value in bias.values():
        within("logit_bias", value, 0.0, -100, 100)
    return SamplingParams(
        max_tokens=1,
        temperature=temperature if temperature >= GREEDY_BELOW else 0.0,
        top_k=0 if top_k in ALL_CANDIDATES or top_k >= vocab_size else top_k,
        top_p=positive("top_p", body.top_p, 1.0, 1),
        min_p=within("min_p", body.min_p, 0.0, 0, 1),
        presence_penalty=within("presence_penalty", body.presence_penalty, 0.0, -2, 2),
        frequency_penalty=within("frequency_penalty", body.frequency_penalty, 0.0, -2, 2),
        repetition_penalty=within("repetition_penalty", body.repetition_penalty, 1.0, 0.01, 10),
        seed=within("seed", body.seed, 0, -INT64, INT64 - 1) & (INT64 - 1),
        min_tokens=body.min_tokens or 0,
        ignore_eos=bool(body.ignore_eos),
        stop_token_ids=tuple(dict.fromkeys(stop_ids)),
        logit_bias=tuple(sorted(bias.items())),
        num_logprobs=num_logprobs,
        num_prompt_logprobs=num_prompt_logprobs,
        grammar=grammar,
    )


def prompt_logprobs(body: CommonBody, config: HttpConfig) -> int:
    """How many alternatives for each token of the prompt; −1 for none."""
    if body.prompt_logprobs is not None and body.stream:
        raise invalid("prompt_logprobs does not go with stream", "prompt_logprobs", "conflict")
    return within("prompt_logprobs", body.prompt_logprobs, -1, 0, config.max_logprobs)


def common_fields(body: CommonBody, config: HttpConfig) -> dict[str, Any]:
    """Everything else that both endpoints have."""
    options = body.stream_options
    if options is not None and not body.stream:
        raise invalid("stream_options needs stream", "stream_options", "conflict")
    salt = body.cache_salt
    if salt is not None and not 1 <= len(salt.encode()) <= config.max_salt_bytes:
        limit = f"must have from 1 to {config.max_salt_bytes} bytes"
        raise invalid(f"cache_salt has {len(salt.encode())} bytes, {limit}", "cache_salt", "out_of_range")
    at_most("user", len(body.user or ""), 256, "characters")
    return {
        "has_seed": body.seed is not None,
        "stop": stop_strings(body, config),
        "num_choices": within("n", body.n, 1, 1, config.max_choices),
        "is_stream": bool(body.stream),
        "include_usage": bool(options and (options.include_usage or options.continuous_usage_stats)),
        "usage_in_every_event": bool(options and options.continuous_usage_stats),
        "include_timing": bool(body.timing),
        "user": body.user or "",
        "cache_salt": salt or "",
        "priority_class": within("priority", body.priority, 0, 0, config.max_priority),
        "timeout_s": float(positive("timeout", body.timeout, config.default_timeout_s, config.max_timeout_s)),
    }
