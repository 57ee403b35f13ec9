"""A grammar that cannot be followed to the end is the client's to know, on every path; the next request is served."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.processes.conftest import NAMES, Stage
from tests.support.grammars import NUM_LETTERS, failing_after_letters
from tests.support.load import Load
from tests.support.stack import Stack

BODY = {"model": "tiny", "guided_grammar": failing_after_letters(), "max_tokens": 100, "seed": 5}
ASKED: dict[str, dict[str, Any]] = {
    "/v1/completions": BODY | {"prompt": "x" * 40},
    "/v1/chat/completions": BODY | {"messages": [{"role": "user", "content": "x" * 40}]},
}


async def refused(stack: Stack, path: str, **fields: Any) -> None:
    async with stack.session.post(stack.url + path, json=ASKED[path] | fields) as response:
        error = (await response.json())["error"]
        assert (response.status, error["code"]) == (422, "grammar_failed"), error
        assert error["type"] == "invalid_request_error"
        assert "Retry-After" not in response.headers


async def broken_off(stack: Stack, path: str) -> None:
    """The stream has all that matched, then the error, and nothing that looks like an end."""
    async with stack.session.post(stack.url + path, json=ASKED[path] | {"stream": True}) as response:
        assert response.status == 200
        events = [line.removeprefix("data: ") for line in (await response.text()).split("\n\n") if line]
    assert json.loads(events[-1])["error"]["code"] == "grammar_failed"
    choices = [choice for event in events[:-1] for choice in json.loads(event)["choices"]]
    text = "".join(choice.get("text") or choice.get("delta", {}).get("content") or "" for choice in choices)
    assert len(text) == NUM_LETTERS
    assert text.isalpha()
    assert {choice["finish_reason"] for choice in choices} == {None}


@pytest.mark.parametrize("names", [NAMES, ("scheduler", "unified", "router")], ids=["pair", "alone"])
def test_a_grammar_that_fails_in_mid_answer_is_an_error_and_the_next_request_works(
    stage: Stage, names: tuple[str, ...]
) -> None:
    async def story(stack: Stack) -> None:
        load = Load(stack)
        for path in ASKED:
            await refused(stack, path)
            await load.good_answers(2)
            await broken_off(stack, path)
            await load.good_answers(2)
        await refused(stack, "/v1/completions", n=3)
        await load.good_answers(2)
        await load.stop()
        assert load.failures == {}
        await stack.quiescent()
        gauges = await stack.gauges("router")
        assert gauges["ended_grammar_failed_total"] == gauges["attempts_failed_grammar_failed_total"] == 5

    stage.run(story, names)
