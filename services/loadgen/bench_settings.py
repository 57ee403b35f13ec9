"""What one may ask of `baton bench` besides the load itself."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Annotated, Any

import msgspec

from baton.core.metrics.compat import Tool
from baton.core.metrics.goodput import Slo
from baton.services.loadgen.load_errors import BadLoad
from baton.services.loadgen.target import Endpoint, Target

KEY_VARIABLES = ("BATON_BENCH_API_KEY", "OPENAI_API_KEY")  #: the first that is set; there is no flag for keys
BOUNDS = {"ttft": "ttft_s", "tpot": "tpot_s", "itl": "itl_s", "e2e": "e2e_s"}
UNITS_S = {"ms": 1e-3, "s": 1.0, "": 1.0}
Seconds = Annotated[float, msgspec.Meta(gt=0)]


class TargetSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The server, and how it is asked. An API key comes from $BATON_BENCH_API_KEY or $OPENAI_API_KEY."""

    url: str = "http://127.0.0.1:8000"  #: with or without /v1
    model: str = ""  #: the server's only one if empty
    endpoint: Endpoint = Endpoint.CHAT  #: chat, completions or responses
    whole: bool = False  #: answers in one piece, not streamed
    may_stop: bool = False  #: the model may end an answer before its length (without ignore_eos and min_tokens)
    count_tokens: bool = False  #: ask for the count of tokens with every event (continuous_usage_stats)
    body: str = ""  #: JSON object of further fields of every request, over all others
    header: tuple[str, ...] = ()  #: NAME:VALUE of every request
    insecure: bool = False  #: take any certificate
    connect_timeout_s: Seconds = 10.0  #: for a connection
    stall_timeout_s: Seconds = 120.0  #: nothing came for so long
    total_timeout_s: Seconds = 600.0  #: of a request, from being sent to its end


class RunSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The run and what is made of it."""

    out: str = ""  #: folder for the report and the records of all requests; bench-DATE-TIME if empty
    sweep: str = ""  #: several runs: rate:1,2,4 or concurrency:1,8,64
    slo: str = ""  #: such as ttft=2s,itl=25ms,tpot=30ms,e2e=10s: what a good request keeps
    compat: tuple[Tool, ...] = ()  #: also by the definitions of vllm, aiperf, guidellm
    max_failed: Annotated[float, msgspec.Meta(ge=0, le=1)] = 0.01  #: share of failures past which the exit code is 1
    max_time_s: Annotated[float, msgspec.Meta(ge=0)] = 0.0  #: the measured phase is stopped then; 0: it is not
    workers: Annotated[int, msgspec.Meta(ge=0, le=256)] = 0  #: processes; 0: by the load and the cores
    metrics: tuple[str, ...] = ()  #: URLs of Prometheus expositions to sample; the server's own /metrics if empty
    no_metrics: bool = False  #: sample none
    no_live: bool = False  #: no live view
    title: str = ""  #: of the report


def target_of(settings: TargetSettings, environment: Mapping[str, str] = os.environ) -> Target:
    """Raises BadLoad."""
    return Target(
        url=settings.url,
        model=settings.model,
        endpoint=settings.endpoint,
        api_key=next((environment[name] for name in KEY_VARIABLES if environment.get(name)), ""),
        is_streamed=not settings.whole,
        ignore_eos=not settings.may_stop,
        extra_fields=extra_fields(settings.body),
        extra_headers=extra_headers(settings.header),
        verifies_certificate=not settings.insecure,
        connect_timeout_s=settings.connect_timeout_s,
        stall_timeout_s=settings.stall_timeout_s,
        total_timeout_s=settings.total_timeout_s,
    )


def extra_fields(text: str) -> dict[str, Any]:
    if not text:
        return {}
    try:
        return msgspec.json.decode(text, type=dict[str, Any])
    except msgspec.DecodeError as error:
        raise BadLoad(f"body: {text!r} is no JSON object: {error}") from None


def extra_headers(texts: tuple[str, ...]) -> dict[str, str]:
    headers = {}
    for text in texts:
        name, colon, value = text.partition(":")
        if not colon or not name.strip():
            raise BadLoad(f"header: {text!r} is not NAME:VALUE")
        headers[name.strip()] = value.strip()
    return headers


def slo_of(text: str) -> Slo:
    """Of `ttft=2s,itl=25ms`; a number without a unit is seconds. Raises BadLoad."""
    bounds: dict[str, float] = {}
    for part in filter(None, text.split(",")):
        name, _, value = part.strip().partition("=")
        if name not in BOUNDS or BOUNDS[name] in bounds:
            raise BadLoad(f"slo: {part!r}: one each of {', '.join(BOUNDS)} is known")
        number = value.rstrip("ms")
        try:
            bounds[BOUNDS[name]] = float(number) * UNITS_S[value[len(number) :]]
        except (ValueError, KeyError):
            raise BadLoad(f"slo: {part!r}: {value!r} is no time such as 2s or 25ms") from None
        if not 0 < bounds[BOUNDS[name]] < float("inf"):
            raise BadLoad(f"slo: {part!r}: the bound must be greater than 0 and finite")
    return Slo(**bounds)
