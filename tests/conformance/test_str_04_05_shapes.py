"""STR-04 and STR-05 where prompts are shown, where there are several, and where calls are found in the output."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.conformance.surface import TOOL, USER
from tests.conformance.test_str_text import streamed, text_of
from tests.services.router.rig import Rig, prompt_ids, say

PROMPTS = ["añ", "b", "速"]
CALL = '<tool_call>\n{"name": "f", "arguments": {"a": "é"}}\n</tool_call>'


def choices_of(chunks: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [choice for chunk in chunks for choice in chunk["choices"]]


@pytest.mark.parametrize("chunk", [1, 5])
@pytest.mark.parametrize("n", [1, 3])
async def test_str_04_of_several_shown_prompts_each_choice_shows_its_own_once_and_finishes_once(
    rig: Rig, chunk: int, n: int
) -> None:
    texts = ["short é", "", "a longer 😀 one"]
    rig.machine.chunk = chunk
    rig.machine.script = lambda arrive, choice: say(texts[(len(prompt_ids(arrive)) + choice) % 3])(arrive, choice)
    body = {"model": "tiny", "prompt": PROMPTS, "n": n, "max_tokens": 60, "echo": True}
    _, whole = await rig.post("/v1/completions", body)
    chunks = await streamed(rig, "/v1/completions", body | {"stream_options": {"include_usage": True}})
    assert [choice["index"] for choice in whole["choices"]] == list(range(3 * n))
    for index, choice in enumerate(whole["choices"]):
        prompt = PROMPTS[index // n]
        expected = prompt + texts[(len(prompt.encode()) + index % n) % 3]
        assert choice["text"] == text_of(chunks, index) == expected
        finishes = [one["finish_reason"] for one in choices_of(chunks) if one["index"] == index]
        assert [reason for reason in finishes if reason] == ["stop"]
        assert finishes[-1] == "stop"
    assert chunks[-1]["usage"] == whole["usage"]


@pytest.mark.parametrize("count", [0, 1, 5])
@pytest.mark.parametrize("chunk", [1, 4])
@pytest.mark.parametrize("fields", [{}, {"stop": "END"}, {"n": 2}, {"max_tokens": 0}])
async def test_str_05_scores_of_a_shown_prompt_and_its_output_line_up(
    rig: Rig, count: int, chunk: int, fields: dict[str, Any]
) -> None:
    rig.machine.chunk = chunk
    rig.machine.script = say("añ😀z. END")
    body = {"model": "tiny", "prompt": ["naïve 速", "xy"], "max_tokens": 50, "logprobs": count, "echo": True} | fields
    _, whole = await rig.post("/v1/completions", body)
    chunks = await streamed(rig, "/v1/completions", body)
    num_tokens = 0
    for choice in whole["choices"]:
        scores, text = choice["logprobs"], choice["text"]
        assert text_of(chunks, choice["index"]) == text
        lengths = {len(values) for values in scores.values()}
        assert len(lengths) == 1
        num_tokens += lengths.pop()
        assert (scores["token_logprobs"][0], scores["top_logprobs"][0]) == (None, None)
        assert all(value is not None for value in scores["token_logprobs"][1:])
        assert all(len(top) >= max(count, 1) for top in scores["top_logprobs"][1:])
        assert scores["text_offset"] == sorted(scores["text_offset"])
        for token, offset in zip(scores["tokens"], scores["text_offset"], strict=True):
            if not token.startswith(("bytes:", "<|")):
                assert text[offset : offset + 1] == token
        parts = [one["logprobs"] for one in choices_of(chunks) if one["index"] == choice["index"] and one["logprobs"]]
        for key, values in scores.items():
            assert [value for part in parts for value in part[key]] == values
    num_prompts = len(whole["choices"]) // 2
    assert num_tokens == whole["usage"]["completion_tokens"] + num_prompts * whole["usage"]["prompt_tokens"]


@pytest.mark.parametrize("chunk", [1, 7])
async def test_str_04_calls_of_each_choice_are_its_own_and_each_finishes_once(rig: Rig, chunk: int) -> None:
    texts = [CALL, "only é text", "before " + CALL + "\n" + CALL]
    rig.machine.chunk = chunk
    rig.machine.script = lambda arrive, choice: say(texts[choice])(arrive, choice)
    body = {"model": "tiny", "messages": [USER], "n": 3, "max_tokens": 500, "tools": [TOOL]}
    _, whole = await rig.post("/v1/chat/completions", body)
    chunks = await streamed(rig, "/v1/chat/completions", body)
    for choice, num_calls in zip(whole["choices"], (1, 0, 2), strict=True):
        mine = [one for one in choices_of(chunks) if one["index"] == choice["index"]]
        finishes = [one["finish_reason"] for one in mine if one["finish_reason"]]
        assert finishes == [choice["finish_reason"]] == ["tool_calls" if num_calls else "stop"]
        calls: dict[int, str] = {}
        for delta in (one["delta"] for one in mine):
            for call in delta.get("tool_calls") or ():
                calls[call["index"]] = calls.get(call["index"], "") + (call["function"].get("arguments") or "")
        told = [call["function"]["arguments"] for call in choice["message"].get("tool_calls") or ()]
        assert [calls[index] for index in range(num_calls)] == told
        assert list(map(json.loads, told)) == [{"a": "é"}] * num_calls
        assert text_of(chunks, choice["index"]).strip() == (choice["message"]["content"] or "").strip()


@pytest.mark.parametrize("text", [CALL, "é", "", "a " + CALL])
async def test_str_04_a_response_has_one_end_and_every_item_one(rig: Rig, text: str) -> None:
    rig.machine.script = say(text)
    tool = {"type": "function", **TOOL["function"]}
    body = {"model": "tiny", "input": "x", "max_output_tokens": 300, "tools": [tool], "stream": True}
    async with rig.http.post(rig.url + "/v1/responses", json=body) as response:
        events = [json.loads(line[6:]) for line in (await response.text()).splitlines() if line.startswith("data: ")]
    kinds = [event["type"] for event in events]
    assert [kind for kind in kinds if kind in ("response.completed", "response.incomplete", "response.failed")] == [
        "response.completed"
    ]
    assert kinds[-1] == "response.completed"
    added = [event["output_index"] for event in events if event["type"] == "response.output_item.added"]
    done = [event["output_index"] for event in events if event["type"] == "response.output_item.done"]
    assert added == done == list(range(len(events[-1]["response"]["output"])))
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
