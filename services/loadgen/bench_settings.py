"""What one may ask of `baton bench` besides the load itself."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Annotated, Any

import msgspec

from baton.core.metrics.compat import Tool
from baton.core.metrics.goodput import Slo
from baton.services.loadgen.load_errors import BadLoad
from baton.services.loadgen.target import Endpoint, Target, address_of

KEY_VARIABLES = ("BATON_BENCH_API_KEY", "OPENAI_API_KEY")  #: the first that is set; there is no flag for keys
BOUNDS = {"ttft": "ttft_s", "tpot": "tpot_s", "itl": "itl_s", "e2e": "e2e_s"}
UNITS_S = {"ms": 1e-3, "s": 1.0, "": 1.0}
MAX_S = 1e9  #: of a limit of time: what comes after it never comes
Seconds = Annotated[float, msgspec.Meta(gt=0, le=MAX_S)]


class TargetSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The server, and how it is asked. An API key is taken from $BATON_BENCH_API_KEY or $OPENAI_API_KEY."""

    url: str = "http://127.0.0.1:8000"  #: of the server, with or without /v1
    model: str = ""  #: its name at the server; not needed where the server has one model
    endpoint: Endpoint = Endpoint.CHAT  #: the API that is asked
    whole: bool = False  #: ask for answers in one piece, not for streams: of times, only E2E is known then
    #: the model may end an answer early; else each is asked for at its exact length (ignore_eos and min_tokens, which
    #: many servers do not know and the responses API does not have)
    may_stop: bool = False
    count_tokens: bool = False  #: ask for a count of tokens with every event (continuous_usage_stats)
    body: str = ""  #: JSON object of further fields of every request, over all others: '{"temperature": 0}'
    header: tuple[str, ...] = ()  #: NAME:VALUE of every request; may be given several times
    insecure: bool = False  #: take any certificate
    connect_timeout_s: Seconds = 10.0  #: until there is a connection
    stall_timeout_s: Seconds = 120.0  #: without a byte, after which a request has failed
    total_timeout_s: Seconds = 600.0  #: from sending a request to its end, after which it has failed


class RunSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The run, and what is made of it."""

    out: str = ""  #: folder of the report and of the records of all requests; bench-DATE-TIME if not given
    sweep: str = ""  #: a run at each of several rates or concurrencies: rate:1,2,4 or concurrency:1,8,64
    slo: str = ""  #: what a good request keeps: ttft=2s,itl=25ms,tpot=30ms,e2e=10s or some of these
    compat: tuple[Tool, ...] = ()  #: show the figures as this tool defines them, too; may be given several times
    max_failed: Annotated[float, msgspec.Meta(ge=0, le=1)] = 0.01  #: share of failures past which the exit code is 1
    #: stop the run then: what is open is cut short, what was not sent has failed, and the exit code is 1; 0: never
    max_time_s: Annotated[float, msgspec.Meta(ge=0, le=MAX_S)] = 0.0
    workers: Annotated[int, msgspec.Meta(ge=0, le=256)] = 0  #: processes that send; 0: by the load and the cores
    metrics: tuple[str, ...] = ()  #: URL of Prometheus metrics to sample; may be given several times; else URL/metrics
    no_metrics: bool = False  #: sample no metrics
    no_live: bool = False  #: no live view on a terminal


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


def metrics_urls(settings: RunSettings, target: Target) -> tuple[str, ...]:
    """What to sample; nothing if it is not wanted. Raises BadLoad and TargetInvalid."""
    if settings.metrics and settings.no_metrics:
        raise BadLoad("metrics, no_metrics: one of the two")
    for url in settings.metrics:
        if not url.startswith(("http://", "https://")):
            raise BadLoad(f"metrics: {url!r} is no URL such as http://127.0.0.1:9000/metrics")
    if settings.no_metrics:
        return ()
    return settings.metrics or (f"{address_of(target.url).origin}/metrics",)


def extra_fields(text: str) -> dict[str, Any]:
    if not text:
        return {}
    try:
        return msgspec.json.decode(text, type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeEncodeError) as error:
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
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, _, value = part.partition("=")
        if name not in BOUNDS or BOUNDS[name] in bounds:
            raise BadLoad(f"slo: {part!r}: known are {', '.join(BOUNDS)}, each once")
        bounds[BOUNDS[name]] = seconds(part, value)
    return Slo(**bounds)


def slo_of_target(text: str, target: Target) -> Slo:
    """Raises BadLoad, also for bounds that nothing which comes in one piece can be held to."""
    slo = slo_of(text)
    unknown = [name for name, field in BOUNDS.items() if field != "e2e_s" and getattr(slo, field) is not None]
    if unknown and not target.is_streamed:
        raise BadLoad(f"slo, whole: an answer in one piece has no {', '.join(unknown)}; only e2e can be a bound of it")
    return slo


def seconds(part: str, value: str) -> float:
    number = value.rstrip("ms")
    try:
        found = float(number) * UNITS_S[value[len(number) :]]
    except (ValueError, KeyError):
        raise BadLoad(f"slo: {part!r}: {value!r} is no time such as 2s or 25ms") from None
    if not 0 < found < float("inf"):
        raise BadLoad(f"slo: {part!r}: the bound must be above 0 and finite")
    return found
