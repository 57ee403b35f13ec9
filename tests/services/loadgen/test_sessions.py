"""Synthetic chats: turns that follow each other, and histories that grow."""

from __future__ import annotations

import pytest

from baton.services.loadgen.build import build_plan
from baton.services.loadgen.content import Content, ContentKind
from baton.services.loadgen.load_settings import History, LoadSettings, content_settings
from baton.services.loadgen.plan import Prefix

CHATS = LoadSettings(
    num_sessions=3, turns="4", concurrency=2, input_tokens="10", output_tokens="5", think_s="uniform:1-2"
)
MADE_UP = LoadSettings(
    num_sessions=3, turns="4", concurrency=2, input_tokens="10", output_tokens="5", history=History.MADE_UP,
    num_groups=2, prefix_tokens=8, content=ContentKind.TOKENS,
)  # fmt: skip


def test_a_turn_follows_the_one_before_after_a_think_time() -> None:
    requests = build_plan(CHATS).requests
    assert [(request.session, request.turn) for request in requests] == [
        (f"chat-{chat}", turn) for chat in range(3) for turn in range(4)
    ]
    for request in requests:
        assert request.after == (request.index - 1 if request.turn else None)
        assert (1 <= request.think_s <= 2) == (request.turn > 0)
        assert request.is_next_message == (request.turn > 0)


def test_with_real_answers_a_turn_brings_its_message_alone() -> None:
    assert {request.num_input_tokens for request in build_plan(CHATS).requests} == {10}


def test_only_the_first_turn_of_a_real_chat_brings_the_group() -> None:
    plan = build_plan(
        LoadSettings(num_sessions=2, turns="2", concurrency=2, input_tokens="10", num_groups=1, prefix_tokens=6)
    )
    assert [(request.num_input_tokens, request.prefixes) for request in plan.requests] == [
        (16, (Prefix(0, 6),)),
        (10, ()),
    ] * 2


def test_first_turns_come_at_the_rate() -> None:
    plan = build_plan(LoadSettings(duration_s=3.0, turns="uniform:1-3", rate=2.0, arrivals="constant"))  # type: ignore[arg-type]
    assert [request.at_s for request in plan.requests if request.turn == 0] == [0, 0.5, 1, 1.5, 2, 2.5]
    assert {request.at_s for request in plan.requests if request.turn} == {None}


def test_a_made_up_history_grows_by_message_and_answer() -> None:
    plan = build_plan(MADE_UP)
    assert [request.num_input_tokens for request in plan.requests] == [18, 33, 48, 63] * 3
    assert not any(request.is_next_message for request in plan.requests)


def test_each_turn_of_a_made_up_history_begins_with_the_whole_of_the_one_before() -> None:
    plan = build_plan(MADE_UP)
    content = Content(content_settings(MADE_UP, plan, "x"))
    prompts = [content.prompt(request).token_ids for request in plan.requests]
    for request in plan.requests:
        if request.after is not None:
            assert prompts[request.index][: len(prompts[request.after])] == prompts[request.after]
    assert len({prompt[8:18] for prompt in prompts}) == 3  # chats of one group go apart behind it
    assert len({prompt[:8] for prompt in prompts}) == 2


@pytest.mark.parametrize("seed", [1, 2])
def test_numbers_of_turns_are_drawn(seed: int) -> None:
    plan = build_plan(LoadSettings(seed=seed, num_sessions=200, turns="uniform:1-3", concurrency=2))
    lasts = [request.turn for request, after in zip(plan.requests, [*plan.requests[1:], None], strict=True)
             if after is None or after.turn == 0]  # fmt: skip
    assert len(lasts) == 200
    assert set(lasts) == {0, 1, 2}
