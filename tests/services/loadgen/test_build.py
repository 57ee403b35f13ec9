"""Plans: the same settings give the same one, and each option does what it says."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from baton.core.metrics.facts import Phase
from baton.services.loadgen import replay
from baton.services.loadgen.arrivals import ArrivalKind
from baton.services.loadgen.build import build_plan, plan_fingerprint
from baton.services.loadgen.content import Content, ContentKind
from baton.services.loadgen.load_errors import BadLoad
from baton.services.loadgen.load_settings import History, LoadSettings, content_settings
from baton.services.loadgen.plan import NEVER, Plan, PlannedRequest, Prefix
from baton.services.loadgen.sweep import parse_sweep, sweep_plans
from baton.services.loadgen.traces.records import TraceFormat

CLOSED = LoadSettings(num_requests=20, concurrency=4)


def change(settings: LoadSettings, **options: object) -> LoadSettings:
    return msgspec.structs.replace(settings, **options)


def measured(plan: Plan) -> list[PlannedRequest]:
    return [request for request in plan.requests if request.phase == Phase.MEASURED]


@pytest.fixture
def mooncake(tmp_path: Path) -> str:
    path = tmp_path / "mooncake.jsonl"
    lines = [
        {
            "timestamp": 1000 * number,
            "input_length": 600 + number,
            "output_length": 5 + number,
            "hash_ids": [0, number + 1],
        }
        for number in range(10)
    ]
    path.write_text("\n".join(map(json.dumps, lines)))
    return str(path)


@pytest.fixture
def sessions(tmp_path: Path) -> str:
    path = tmp_path / "sessions.jsonl"
    turns = [{"t": 0, "type": "n", "in": 64, "out": 1, "keep": 0, "new": [[0, 1]]}]
    turns.append({"t": 4, "type": "n", "in": 64, "out": 1, "keep": 1, "new": [], "think_time": 3})
    path.write_text("\n".join(json.dumps({"id": str(i), "block_size": 64, "requests": turns}) for i in range(6)))
    return str(path)


@given(
    st.integers(0, 2**62),
    st.sampled_from([ArrivalKind.POISSON, ArrivalKind.GAMMA, ArrivalKind.CONSTANT]),
    st.sampled_from(["", "3", "uniform:1-4"]),
    st.integers(0, 5),
    st.floats(0, 1),
)
def test_the_same_settings_give_the_same_plan(
    seed: int, kind: ArrivalKind, turns: str, warm_up: int, share: float
) -> None:
    amount = {"num_sessions": 9, "think_s": "uniform:0-2"} if turns else {"num_requests": 9}
    settings = LoadSettings(
        seed=seed, arrivals=kind, rate=5, turns=turns, input_tokens="uniform:1-50",
        warm_up_requests=warm_up, cancel_share=share, num_groups=2, prefix_tokens=8, **amount,
    )  # fmt: skip
    plan = build_plan(settings)
    assert plan_fingerprint(plan) == plan_fingerprint(build_plan(settings))
    assert [request.index for request in plan.requests] == list(range(len(plan.requests)))
    assert all(request.after is None or request.after < request.index for request in plan.requests)
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(plan), type=Plan) == plan
    other = change(settings, seed=seed + 1 if seed < 2**62 else 0)
    assert plan_fingerprint(build_plan(other)) != plan_fingerprint(plan)


def test_a_closed_loop_has_no_times_and_keeps_its_places() -> None:
    plan = build_plan(change(CLOSED, ramp_s=3.0))
    assert {request.at_s for request in plan.requests} == {None}
    assert {request.num_input_tokens for request in plan.requests} == {512}
    assert {request.max_tokens for request in plan.requests} == {128}
    assert (len(plan.requests), plan.concurrency, plan.ramp_s) == (20, 4, 3.0)


def test_a_rate_may_have_a_cap_of_concurrency() -> None:
    plan = build_plan(LoadSettings(num_requests=5, rate=2, arrivals=ArrivalKind.CONSTANT, concurrency=3))
    assert [request.at_s for request in plan.requests] == [0, 0.5, 1, 1.5, 2]
    assert plan.concurrency == 3


def test_a_duration_holds_what_is_due_within_it() -> None:
    plan = build_plan(LoadSettings(duration_s=10, rate=3, arrivals=ArrivalKind.CONSTANT))
    assert len(plan.requests) == 30


def test_another_rate_changes_no_length() -> None:
    slow, fast = (build_plan(LoadSettings(num_requests=50, rate=r, input_tokens="uniform:1-999")) for r in (1, 9))
    assert [request.num_input_tokens for request in slow.requests] == [
        request.num_input_tokens for request in fast.requests
    ]


def test_groups_come_before_what_each_request_has_of_its_own() -> None:
    plan = build_plan(change(CLOSED, num_groups=2, prefix_tokens=30, input_tokens="12"))
    assert {request.prefixes for request in plan.requests} == {(Prefix(0, 30),), (Prefix(1, 30),)}
    assert {request.num_input_tokens for request in plan.requests} == {42}


def test_a_share_is_cancelled_and_no_warm_up_is() -> None:
    plan = build_plan(change(CLOSED, cancel_share=0.25, cancel_after_s="1.5", warm_up_requests=10))
    assert sum(request.cancel_after_s == 1.5 for request in measured(plan)) == 5
    assert all(request.cancel_after_s == NEVER for request in plan.requests[:10])


def test_a_warm_up_comes_first_and_says_what_no_measured_request_says() -> None:
    settings = change(
        CLOSED, warm_up_requests=7, num_groups=1, prefix_tokens=40, input_tokens="20", content=ContentKind.TOKENS
    )
    plan = build_plan(settings)
    assert [request.phase for request in plan.requests] == [Phase.WARM_UP] * 7 + [Phase.MEASURED] * 20
    content = Content(content_settings(settings, plan, "x"))
    heads = [content.prompt(request).token_ids[:8] for request in plan.requests]
    assert not set(heads[:7]) & set(heads[7:])
    assert {request.num_input_tokens for request in plan.requests[:7]} == {60}


def test_a_warm_up_in_seconds_is_due_within_them() -> None:
    plan = build_plan(LoadSettings(num_requests=5, rate=10, arrivals=ArrivalKind.CONSTANT, warm_up_s=2))
    warm_up = plan.requests[:-5]
    assert [request.at_s for request in warm_up] == [number / 10 for number in range(20)]
    assert measured(plan)[0].at_s == 0  # since its own phase began


def test_a_trace_is_replayed_at_its_own_times_and_faster(mooncake: str) -> None:
    plan = build_plan(LoadSettings(trace=mooncake, speed=4))
    assert [request.at_s for request in plan.requests] == [number / 4 for number in range(10)]
    assert [request.num_input_tokens for request in plan.requests] == list(range(600, 610))
    part = build_plan(LoadSettings(trace=mooncake, window_start_s=2, window_end_s=5, num_requests=2))
    assert [(request.at_s, request.max_tokens) for request in part.requests] == [(0, 7), (1, 8)]
    assert len(build_plan(LoadSettings(trace=mooncake, speed=4, duration_s=1)).requests) == 4


def test_a_trace_can_come_at_other_times(mooncake: str) -> None:
    at_rate = build_plan(LoadSettings(trace=mooncake, rate=100, arrivals=ArrivalKind.CONSTANT))
    assert [request.at_s for request in at_rate.requests] == [number / 100 for number in range(10)]
    closed = build_plan(LoadSettings(trace=mooncake, arrivals=ArrivalKind.CLOSED, concurrency=2))
    assert {request.at_s for request in closed.requests} == {None}


def test_equal_blocks_of_a_trace_are_equal_tokens(mooncake: str) -> None:
    settings = LoadSettings(trace=mooncake, content=ContentKind.TOKENS)
    plan = build_plan(settings)
    content = Content(content_settings(settings, plan, "x"))
    prompts = [content.prompt(request).token_ids for request in plan.requests]
    assert len({prompt[:512] for prompt in prompts}) == 1
    assert len({prompt[512:600] for prompt in prompts}) == 10


def test_answers_of_a_trace_can_be_longer(mooncake: str, tmp_path: Path) -> None:
    plain, longer = (build_plan(LoadSettings(trace=mooncake, output_scale=scale)).requests for scale in (1.0, 2.5))
    assert [request.max_tokens for request in longer] == [round(2.5 * request.max_tokens) for request in plain]
    assert [request.num_input_tokens for request in longer] == [request.num_input_tokens for request in plain]
    (tmp_path / "prompts").write_text('{"prompt": "a"}\n')
    with pytest.raises(BadLoad, match=r"output_scale: .* lengths of answers"):
        build_plan(LoadSettings(trace=str(tmp_path / "prompts"), concurrency=1, output_scale=2))


def test_a_trace_warms_up_at_its_mean_rate(mooncake: str) -> None:
    plan = build_plan(LoadSettings(trace=mooncake, warm_up_s=200))
    warm_up = [request for request in plan.requests if request.phase == Phase.WARM_UP]
    assert len(warm_up) == pytest.approx(200 * 10 / 9, rel=0.25)
    assert all(request.blocks == () and 600 <= request.num_input_tokens < 610 for request in warm_up)


def test_sessions_of_a_trace_begin_at_a_rate_and_go_on_by_themselves(sessions: str) -> None:
    settings = LoadSettings(trace=sessions, rate=2, arrivals=ArrivalKind.CONSTANT, speed=3, num_sessions=5)
    plan = build_plan(change(settings, warm_up_requests=2))
    requests = measured(plan)
    assert [request.at_s for request in requests[::2]] == [0, 0.5, 1, 1.5, 2]
    assert [(request.at_s, request.after, request.think_s) for request in requests[1::2]] == [
        (None, index, 1.0) for index in (2, 4, 6, 8, 10)
    ]
    assert len(build_plan(change(settings, duration_s=1.0)).requests) == 4


def test_prompts_without_a_length_of_their_own_get_one(tmp_path: Path) -> None:
    path = tmp_path / "prompts.jsonl"
    path.write_text('{"prompt": "a", "max_tokens": 3}\n{"prompt": "b"}')
    plan = build_plan(LoadSettings(trace=str(path), concurrency=1, output_tokens="17", warm_up_requests=1))
    assert [(request.text, request.max_tokens) for request in measured(plan)] == [("a", 3), ("b", 17)]
    assert plan.requests[0].text == ""


def test_what_needs_too_long_a_context_is_left_out_of_a_trace_and_counted(mooncake: str, tmp_path: Path) -> None:
    """Of the trace, request i needs 605 + 2 i tokens."""
    plan = build_plan(LoadSettings(trace=mooncake, max_context_tokens=611))
    assert [request.num_input_tokens for request in plan.requests] == [600, 601, 602, 603]
    assert plan.num_left_out == 6
    assert build_plan(LoadSettings(trace=mooncake)).num_left_out == 0
    drawn = build_plan(change(CLOSED, lengths_from=mooncake, max_context_tokens=606))
    assert {request.num_input_tokens for request in drawn.requests} == {600}
    (tmp_path / "prompts").write_text('{"prompt": "a", "max_tokens": 3}')
    with pytest.raises(BadLoad, match=r"max_context_tokens: .*has texts, whose lengths in tokens are not known"):
        build_plan(LoadSettings(trace=str(tmp_path / "prompts"), concurrency=1, max_context_tokens=10))


def test_lengths_of_answers_that_a_trace_says_are_not_asked_for(mooncake: str) -> None:
    with pytest.raises(BadLoad, match="output_tokens, trace"):
        build_plan(LoadSettings(trace=mooncake, output_tokens="3"))


def test_a_trace_of_more_requests_than_a_run_can_have_is_told(mooncake: str, monkeypatch: pytest.MonkeyPatch) -> None:
    count = len(build_plan(LoadSettings(trace=mooncake)).requests)
    monkeypatch.setattr(replay, "MAX_REQUESTS", count - 1)
    with pytest.raises(BadLoad, match=r"^trace: more than [\d,]+ requests, the most that a run can have$"):
        build_plan(LoadSettings(trace=mooncake))
    assert len(build_plan(LoadSettings(trace=mooncake, num_requests=count - 1)).requests) == count - 1


def test_a_sweep_is_over_nothing_that_is_given_beside_it() -> None:
    for settings, text in ((LoadSettings(num_requests=3, rate=2), "rate:1"), (CLOSED, "concurrency:1")):
        with pytest.raises(BadLoad, match="one of the two"):
            sweep_plans(settings, parse_sweep(text))


def test_lengths_of_a_trace_can_be_drawn_without_its_prompts(mooncake: str) -> None:
    plan = build_plan(LoadSettings(lengths_from=mooncake, num_requests=30, concurrency=2))
    assert all(request.num_input_tokens == request.max_tokens + 595 for request in plan.requests)
    assert all(not request.blocks for request in plan.requests)


def test_a_repeatable_run_goes_without_a_salt() -> None:
    plan = build_plan(CLOSED)
    assert content_settings(CLOSED, plan, "x").salt == "x"
    assert content_settings(change(CLOSED, repeatable=True), plan, "x").salt == ""


def test_a_sweep_changes_one_thing_and_repeats_no_prompt() -> None:
    settings = LoadSettings(num_requests=10, repeatable=True, input_tokens="uniform:20-50", content=ContentKind.TOKENS)
    points = sweep_plans(settings, parse_sweep("rate:1,2.5,4"))
    assert [label for label, _ in points] == ["rate=1", "rate=2.5", "rate=4"]
    lengths = {tuple(request.num_input_tokens for request in plan.requests) for _, plan in points}
    assert len(lengths) == 1
    heads = set()
    for _, plan in points:
        content = Content(content_settings(settings, plan, ""))
        heads |= {content.prompt(request).token_ids[:8] for request in plan.requests}
    assert len(heads) == 30


def test_a_sweep_over_concurrencies() -> None:
    points = sweep_plans(LoadSettings(num_requests=3), parse_sweep("concurrency:1,64"))
    assert [(label, plan.concurrency) for label, plan in points] == [("concurrency=1", 1), ("concurrency=64", 64)]


@pytest.mark.parametrize(
    "text", ["", "rate", "rate:", "rate:1,x", "rate:0", "rate:nan", "rate:1,1", "depth:3", "concurrency:1.5"]
)
def test_a_sweep_that_is_none_is_told(text: str) -> None:
    with pytest.raises(BadLoad, match="sweep"):
        parse_sweep(text)


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"num_requests": 0}, "num_requests, duration_s"),
        ({"num_requests": -1}, "num_requests"),
        ({"num_requests": 2.5}, "num_requests"),
        ({"concurrency": 0}, "concurrency, rate"),
        ({"seed": -1}, "seed"),
        ({"duration_s": 5.0}, "duration_s"),
        ({"warm_up_s": 5.0}, "warm_up_s"),
        ({"warm_up_s": 5.0, "warm_up_requests": 5, "rate": 1.0}, "warm_up_requests, warm_up_s"),
        ({"rate": float("nan")}, "rate"),
        ({"rate": float("inf")}, "rate"),
        ({"arrivals": ArrivalKind.GAMMA}, "rate: gamma arrivals need one"),
        ({"arrivals": ArrivalKind.CLOSED, "rate": 3.0}, "rate: closed arrivals have none"),
        ({"arrivals": ArrivalKind.TRACE}, "trace needs a trace"),
        ({"burstiness": 2.0}, "burstiness"),
        ({"burst_size": 2}, "burst_size"),
        ({"burst_every_s": 2.0}, "burst_size, burst_every_s"),
        ({"think_s": "1"}, "think_s: only of chats"),
        ({"history": History.MADE_UP}, "history: only of chats"),
        ({"cancel_after_s": "3"}, "cancel_after_s: only with a cancel_share"),
        ({"trace_format": TraceFormat.AZURE, "mark_texts": True}, "trace_format, mark_texts: only of a trace"),
        ({"end_token_id": 9}, "end_token_id: only of prompts of token ids"),
        ({"max_context_tokens": 9}, "max_context_tokens: only of a trace"),
        ({"ramp_s": 1.0, "concurrency": 0, "rate": 1.0}, "ramp_s"),
        ({"cancel_share": 1.5}, "cancel_share"),
        ({"cancel_share": 0.5, "cancel_after_s": "soon"}, "cancel_after_s"),
        ({"input_tokens": "x"}, "input_tokens"),
        ({"num_groups": 3}, "num_groups, prefix_tokens"),
        ({"num_sessions": 3}, "num_sessions"),
        ({"turns": "3"}, "num_sessions, duration_s"),
        ({"turns": "3", "num_sessions": 3}, "num_requests"),
        ({"turns": "x", "num_sessions": 3, "num_requests": 0}, "turns"),
        ({"turns": "2", "num_sessions": 3, "num_requests": 0, "content": ContentKind.TOKENS}, "history"),
        ({"content": ContentKind.TOKENS, "tokenizer": "x"}, "tokenizer"),
        ({"first_token_id": 9, "end_token_id": 9}, "first_token_id, end_token_id"),
        ({"speed": 2.0}, "speed"),
        ({"speed": 0.0}, "speed"),
        ({"output_scale": 2.0}, "output_scale"),
        ({"lengths_from": "x", "input_tokens": "5"}, "lengths_from"),
        ({"lengths_from": "/nowhere"}, "/nowhere: No such file"),
        ({"trace": "/nowhere", "turns": "2"}, "trace"),
        ({"trace": "/nowhere"}, "/nowhere: No such file"),
        ({"trace": "/nowhere", "window_start_s": 3.0, "window_end_s": 2.0}, "window"),
        ({"duration_s": 0.001, "rate": 0.001}, "nothing is due"),
        ({"num_requests": 10**9, "rate": 1e6}, "^num_requests: more than 1,000,000 requests, the most that a run"),
        ({"warm_up_requests": 10**9}, "warm_up_requests: more than 1,000,000 requests"),
        ({"duration_s": 1e9, "rate": 1e6, "num_requests": 0}, r"^1e\+09 s at this rate: more than 1,000,000 requests"),
        ({"warm_up_s": 1e9, "rate": 1e6}, r"^1e\+09 s at this rate: more than 1,000,000 requests"),
        ({"turns": "1000", "num_sessions": 1001, "num_requests": 0}, "num_sessions, turns: more than 1,000,000"),
    ],
)  # fmt: skip
def test_what_makes_no_sense_is_told_in_one_line_that_names_the_option(options: dict[str, object], named: str) -> None:
    with pytest.raises(BadLoad, match=named) as caught:
        build_plan(change(CLOSED, **options))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"concurrency": 0}, "give a rate or a concurrency"),
        ({"arrivals": ArrivalKind.TRACE}, "give a rate or a concurrency"),
        ({"duration_s": 3.0}, "duration_s"),
        ({"warm_up_s": 3.0}, "warm_up_s"),
        ({"window_end_s": 3.0}, "no common clock"),
    ],
)
def test_what_a_trace_without_times_cannot_do_is_told(sessions: str, options: dict[str, object], named: str) -> None:
    with pytest.raises(BadLoad, match=named):
        build_plan(change(LoadSettings(trace=sessions, concurrency=2), **options))


def test_token_ids_cannot_say_texts_and_an_empty_window_is_no_load(tmp_path: Path, mooncake: str) -> None:
    path = tmp_path / "prompts.jsonl"
    path.write_text('{"prompt": "a"}')
    with pytest.raises(BadLoad, match="has texts"):
        build_plan(LoadSettings(trace=str(path), concurrency=1, content=ContentKind.TOKENS))
    with pytest.raises(BadLoad, match="lengths in tokens"):
        build_plan(change(CLOSED, lengths_from=str(path)))
    with pytest.raises(BadLoad, match="nothing of it is left"):
        build_plan(LoadSettings(trace=mooncake, window_start_s=100))
