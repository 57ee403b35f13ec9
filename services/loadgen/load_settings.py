"""Everything that one may ask of a load, and which of it makes no sense together."""

from __future__ import annotations

import enum
import math
from typing import Annotated

import msgspec

from baton.services.loadgen.arrivals import ArrivalKind, Arrivals
from baton.services.loadgen.content import ContentKind, ContentSettings
from baton.services.loadgen.load_errors import MAX_REQUESTS, BadLoad, TooMany
from baton.services.loadgen.plan import Plan
from baton.services.loadgen.traces.records import TraceFormat

DEFAULT_INPUT_TOKENS = "512"
DEFAULT_OUTPUT_TOKENS = "128"

Whole = Annotated[int, msgspec.Meta(ge=0, le=1 << 31)]
Real = Annotated[float, msgspec.Meta(ge=0)]
Positive = Annotated[float, msgspec.Meta(gt=0)]


class History(enum.StrEnum):
    """What a later turn of a synthetic chat repeats of the earlier ones."""

    REAL = "real"  #: the answers that came; whoever sends adds them
    MADE_UP = "made_up"  #: tokens in their place that were planned before, as a completions API needs them


class LoadSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is asked, how much of it, and when. A length, a number of turns or a time is N, uniform:A-B, normal:MEAN,STD
    or lognormal:MEDIAN,SIGMA, the last two with ,A-B if kept within A and B. 0 or nothing: not asked for, unless it
    says otherwise."""

    seed: Annotated[int, msgspec.Meta(ge=0, le=1 << 62)] = 0  #: of all chance: the same seed gives the same load
    repeatable: bool = False  #: the same seed gives the same words, too, which a server may then find in its cache

    # how much
    num_requests: Whole = 0  #: how many requests
    num_sessions: Whole = 0  #: how many chats, or sessions of a trace
    duration_s: Real = 0.0  #: of a load with a rate or a trace: what is due (of chats: begins) within so long

    # when
    #: how requests come: at a trace's times, each as soon as one of --concurrency is free (closed), or at --rate; auto:
    #: poisson where a rate is given, else the times of the trace, else closed
    arrivals: ArrivalKind = ArrivalKind.AUTO
    rate: Real = 0.0  #: requests per second (of chats and sessions: first turns)
    burstiness: Positive = 1.0  #: shape of gamma arrivals: 1 is poisson, less comes in clusters, more evenly
    burst_size: Annotated[int, msgspec.Meta(ge=1)] = 1  #: requests of a burst, due at once
    burst_every_s: Positive = 1.0  #: between the starts of two bursts
    concurrency: Whole = 0  #: requests open at once; with a rate: no more than so many
    ramp_s: Real = 0.0  #: concurrency is reached evenly over so long

    # what
    #: prompts of made-up words, or of token ids (--endpoint completions only)
    content: ContentKind = ContentKind.TEXT
    input_tokens: str = ""  #: length of each prompt or message; 512 if not given
    output_tokens: str = ""  #: length of each answer; 128 if not given
    lengths_from: str = ""  #: path of a trace: both lengths are those of one of its requests, drawn by chance
    num_groups: Whole = 0  #: each prompt begins with the words of one of so many groups
    prefix_tokens: Whole = 0  #: length of a group's words, before each prompt's own
    turns: str = ""  #: questions of each chat, each sent after the answer before it; single requests if not given
    think_s: str = "0"  #: from an answer's end to the chat's next question
    #: what later questions repeat of earlier answers: what came, or made-up words of the asked length
    history: History = History.REAL
    #: path of the model's tokenizer.json, so that prompts have the lengths asked for; else a word counts as one token
    tokenizer: str = ""
    first_token_id: Whole = 0  #: the least id of prompts of token ids
    end_token_id: Whole = 32000  #: the first id beyond those of prompts of token ids
    mark_texts: bool = False  #: prompts of a file begin with a mark of the run, so that no cache knows them

    # a trace
    trace: str = ""  #: path of a file of requests (.gz, too) that is replayed, or sample or sample-sessions
    #: what the file is; auto: as its first line looks
    trace_format: TraceFormat = TraceFormat.AUTO
    speed: Positive = 1.0  #: of the replay: 2 halves all gaps and think times
    output_scale: Positive = 1.0  #: of the answers that a trace gives lengths of: 2 doubles them
    window_start_s: Real = 0.0  #: only what the trace has from then on, by its own time
    window_end_s: Real = 0.0  #: and before then
    #: leave out what needs more tokens, prompt and answer together, and what follows it in its session; the report says
    #: how many
    max_context_tokens: Whole = 0

    # besides
    cancel_share: Annotated[float, msgspec.Meta(ge=0, le=1)] = 0.0  #: share of requests that the client gives up
    cancel_after_s: str = "uniform:0.1-2"  #: so long after they were sent
    warm_up_requests: Whole = 0  #: sent first, and no part of any figure
    warm_up_s: Real = 0.0  #: the same, of a load with a rate: as many as come in so long


DEFAULTS = LoadSettings()
OF_REPLAYS = ("speed", "output_scale", "window_start_s", "window_end_s")


def check_settings(settings: LoadSettings) -> None:
    """Raises BadLoad, which names the option."""
    try:
        msgspec.convert(msgspec.structs.asdict(settings), LoadSettings)
    except msgspec.ValidationError as error:
        message, _, place = str(error).partition(" - at ")
        raise BadLoad(f"{place.strip('`$.')}: {message}") from None
    for name, value in msgspec.structs.asdict(settings).items():
        if isinstance(value, float) and not math.isfinite(value):
            raise BadLoad(f"{name}: {value} is not finite")
    for name in ("num_requests", "num_sessions", "warm_up_requests"):
        if getattr(settings, name) > MAX_REQUESTS:
            raise TooMany(name)
    for is_wrong, what in _contradictions(settings):
        if is_wrong:
            raise BadLoad(what)


def _contradictions(s: LoadSettings) -> list[tuple[bool, str]]:
    return [*_wrong_amounts(s), *_wrong_times(s), *_wrong_contents(s)]


def _wrong_amounts(s: LoadSettings) -> list[tuple[bool, str]]:
    is_synthetic = not s.trace
    amount = s.num_sessions if s.turns else s.num_requests
    name = "num_sessions" if s.turns else "num_requests"
    return [
        (is_synthetic and not amount and not s.duration_s, f"{name}, duration_s: how much is wanted?"),
        (is_synthetic and bool(s.turns) and s.num_requests > 0, "num_requests: chats are counted by num_sessions"),
        (is_synthetic and not s.turns and s.num_sessions > 0, "num_sessions: only of chats (turns) or a trace"),
        (s.warm_up_requests > 0 and s.warm_up_s > 0, "warm_up_requests, warm_up_s: one of the two"),
    ]


def _wrong_times(s: LoadSettings) -> list[tuple[bool, str]]:
    kind = kind_of(s, has_times=bool(s.trace))
    is_closed, needs_rate = kind == ArrivalKind.CLOSED, (ArrivalKind.CONSTANT, ArrivalKind.POISSON, ArrivalKind.GAMMA)
    return [
        (kind in needs_rate and not s.rate, f"rate: {kind} arrivals need one"),
        (kind not in needs_rate and s.rate > 0, f"rate: {kind} arrivals have none"),
        (s.burstiness != 1 and kind != ArrivalKind.GAMMA, f"burstiness: only of gamma arrivals, not of {kind}"),
        (
            (s.burst_size, s.burst_every_s) != (1, 1) and kind != ArrivalKind.BURST,
            f"burst_size, burst_every_s: only of burst arrivals, not of {kind}",
        ),
        (kind == ArrivalKind.TRACE and not s.trace, "arrivals: trace needs a trace"),
        (is_closed and not s.concurrency, "concurrency, rate: a load without a rate needs a concurrency"),
        (is_closed and s.duration_s > 0, "duration_s: of a load with a rate; a closed loop is told its number"),
        (is_closed and s.warm_up_s > 0, "warm_up_s: of a load with a rate; a closed loop is told its number"),
        (s.ramp_s > 0 and not s.concurrency, "ramp_s: only with a concurrency"),
        (0 < s.window_end_s <= s.window_start_s, "window_start_s, window_end_s: there is nothing between them"),
    ]


def _wrong_contents(s: LoadSettings) -> list[tuple[bool, str]]:
    is_real_chat = bool(s.turns) and s.history == History.REAL
    synthetic = (s.input_tokens, s.lengths_from, s.num_groups, s.prefix_tokens, s.turns)
    of_chats, of_traces = _changed(s, "think_s", "history"), _changed(s, "trace_format", "mark_texts", *OF_REPLAYS)
    of_ids, of_cancels = _changed(s, "first_token_id", "end_token_id"), _changed(s, "cancel_after_s")
    return [
        (not s.turns and bool(of_chats), f"{', '.join(of_chats)}: only of chats (turns)"),
        (not s.trace and bool(of_traces), f"{', '.join(of_traces)}: only of a trace"),
        (s.content != ContentKind.TOKENS and bool(of_ids), f"{', '.join(of_ids)}: only of prompts of token ids"),
        (not s.cancel_share and bool(of_cancels), "cancel_after_s: only with a cancel_share"),
        (s.max_context_tokens > 0 and not (s.trace or s.lengths_from), "max_context_tokens: only of a trace"),
        (bool(s.trace) and any(synthetic), "trace: it says itself what the lengths, groups and turns are"),
        (bool(s.lengths_from) and bool(s.input_tokens or s.output_tokens), "lengths_from: input and output both"),
        ((s.num_groups > 0) != (s.prefix_tokens > 0), "num_groups, prefix_tokens: each needs the other"),
        (s.content == ContentKind.TOKENS and is_real_chat, "history: token ids of answers are not known; made_up"),
        (s.content == ContentKind.TOKENS and bool(s.tokenizer), "tokenizer: token ids need none"),
        (s.first_token_id >= s.end_token_id, "first_token_id, end_token_id: there are no ids between them"),
    ]


def _changed(settings: LoadSettings, *names: str) -> list[str]:
    """Those of the names that differ from their defaults."""
    return [name for name in names if getattr(settings, name) != getattr(DEFAULTS, name)]


def kind_of(settings: LoadSettings, *, has_times: bool) -> ArrivalKind:
    """What AUTO means; `has_times`: the trace, if there is one, has times of its own."""
    if settings.arrivals != ArrivalKind.AUTO:
        return settings.arrivals
    if settings.rate:
        return ArrivalKind.POISSON
    return ArrivalKind.TRACE if has_times else ArrivalKind.CLOSED


def open_arrivals(settings: LoadSettings, kind: ArrivalKind) -> Arrivals:
    return Arrivals(
        kind=kind,
        rate=settings.rate,
        burstiness=settings.burstiness,
        burst_size=settings.burst_size,
        burst_every_s=settings.burst_every_s,
    )


def content_settings(settings: LoadSettings, plan: Plan, salt: str) -> ContentSettings:
    """`salt`: `new_salt()` of the run. A repeatable run goes without."""
    return ContentSettings(
        kind=settings.content,
        seed=plan.seed,
        salt="" if settings.repeatable else salt,
        tokenizer=settings.tokenizer,
        first_token_id=settings.first_token_id,
        end_token_id=settings.end_token_id,
        marks_texts=settings.mark_texts,
    )
