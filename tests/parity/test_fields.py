"""The same values whatever the path: streamed or whole, cold or warm, on a pair of executors over NIXL or one alone."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest

from tests.parity.live import LiveStack

SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string", "maxLength": 6}, "ok": {"type": "boolean"}},
    "required": ["name", "ok"],
    "additionalProperties": False,
}
FORMAT = {"type": "json_schema", "json_schema": {"name": "thing", "schema": SCHEMA, "strict": True}}
TOOL = {"type": "function", "function": {"name": "act", "parameters": SCHEMA}}
PROMPT = "The quick brown fox jumps over the lazy dog, " * 3
COMPLETION = {"prompt": PROMPT, "max_tokens": 24, "seed": 7}
CHAT = {"messages": [{"role": "user", "content": PROMPT}], "max_tokens": 120, "seed": 11}
JSON_OBJECT = {"response_format": {"type": "json_object"}, "logit_bias": {"125": 60}}
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "greedy": ("/v1/completions", COMPLETION | {"temperature": 0, "logprobs": 3}),
    "sampled": ("/v1/completions", COMPLETION | {"n": 3, "top_p": 0.9, "logprobs": 1}),
    "penalties": ("/v1/completions", COMPLETION | {"presence_penalty": 1, "frequency_penalty": 1, "min_p": 0.01}),
    "bias": ("/v1/completions", COMPLETION | {"logit_bias": {"65": 50, "66": 50}, "repetition_penalty": 1.5}),
    "echo": ("/v1/completions", COMPLETION | {"echo": True, "logprobs": 2, "n": 2}),
    "echo_only": ("/v1/completions", COMPLETION | {"echo": True, "logprobs": 1, "max_tokens": 0}),
    "prompts": ("/v1/completions", COMPLETION | {"prompt": [PROMPT, "x", PROMPT + "y"], "n": 2}),
    "regex": ("/v1/completions", COMPLETION | {"guided_regex": "(ab|cd){3,5}e", "n": 2, "logprobs": 0}),
    "choice": ("/v1/completions", COMPLETION | {"guided_choice": ["yes", "no", "perhaps"], "n": 4}),
    "json": ("/v1/chat/completions", CHAT | {"response_format": FORMAT, "n": 3}),
    "any_json": ("/v1/chat/completions", CHAT | JSON_OBJECT),
    "tool": ("/v1/chat/completions", CHAT | {"tools": [TOOL], "tool_choice": "required", "parallel_tool_calls": False}),
    "stop": ("/v1/completions", COMPLETION | {"stop": ["a", "e"], "logprobs": 1}),
}


def ask(stack: LiveStack, path: str, body: dict[str, Any]) -> str:
    async def post() -> str:
        named = {"model": stack.names.model} | body
        async with stack.stack.session.post(stack.stack.url + path, json=named) as response:
            assert response.status == 200, await response.text()
            return await response.text()

    return stack.run(post())


def shown(choice: dict[str, Any]) -> dict[str, Any]:
    """A choice but for the ids of its calls, which are drawn anew."""
    for call in choice.get("message", {}).get("tool_calls", ()):
        call.pop("id")
    return {key: value for key, value in choice.items() if key != "prompt_logprobs"}


def whole(stack: LiveStack, path: str, body: dict[str, Any]) -> list[dict[str, Any]]:
    return [shown(choice) for choice in json.loads(ask(stack, path, body))["choices"]]


def gathered(text: str) -> list[dict[str, Any]]:
    """The choices that a streamed answer's events add up to."""
    events = [line.removeprefix("data: ") for line in text.split("\n\n") if line]
    assert events[-1] == "[DONE]"
    found: dict[int, dict[str, Any]] = {}
    for event in events[:-1]:
        for choice in json.loads(event)["choices"]:
            one = found.setdefault(choice["index"], {"text": "", "calls": [], "scores": {}, "finish_reason": None})
            delta = choice.get("delta", {})
            one["text"] += choice.get("text", delta.get("content", ""))
            for call in delta.get("tool_calls", ()):
                if "id" in call:
                    one["calls"].append({"name": call["function"]["name"], "arguments": ""})
                one["calls"][call["index"]]["arguments"] += call["function"]["arguments"]
            for name, values in (choice["logprobs"] or {}).items():
                one["scores"].setdefault(name, []).extend(values or ())
            one["finish_reason"] = choice["finish_reason"] or one["finish_reason"]
    return [found[index] for index in sorted(found)]


def flat(choice: dict[str, Any]) -> dict[str, Any]:
    """A whole choice in the same form."""
    message = choice.get("message", {})
    calls = [call["function"] for call in message.get("tool_calls", ())]
    scores = choice["logprobs"] or {}
    text = choice["text"] if "text" in choice else message["content"] or ""
    return {"text": text, "calls": calls, "scores": scores, "finish_reason": choice["finish_reason"]}


@pytest.fixture(scope="session")
def first_answers() -> dict[str, Any]:
    """By case: what the first stack said."""
    return {}


@pytest.mark.parametrize("case", CASES)
def test_x8_every_field_has_the_same_values_on_every_path(
    tiny_stack: LiveStack, first_answers: dict[str, Any], case: str
) -> None:
    path, body = CASES[case]
    cold = whole(tiny_stack, path, body | {"cache_salt": f"cold {case}"})
    assert whole(tiny_stack, path, body | {"cache_salt": f"cold {case}"}) == cold  # warm now
    assert gathered(ask(tiny_stack, path, body | {"stream": True})) == [flat(choice) for choice in cold]
    assert first_answers.setdefault(case, cold) == cold


def test_x8_scores_of_a_prompt_are_the_same_on_every_path(tiny_stack: LiveStack, first_answers: dict[str, Any]) -> None:
    body = {"prompt": PROMPT, "max_tokens": 2, "seed": 1, "prompt_logprobs": 3}
    answers = [json.loads(ask(tiny_stack, "/v1/completions", body)) for _ in range(2)]
    scores = [answer["choices"][0]["prompt_logprobs"] for answer in answers]
    assert scores[0] == scores[1]
    assert len(scores[0]) == len(PROMPT)
    assert first_answers.setdefault("prompt_logprobs", scores[0]) == scores[0]


def test_whatever_the_model_prefers_the_output_is_valid(tiny_stack: LiveStack) -> None:
    for seed in range(6):
        _, body = CASES["json"]
        for choice in whole(tiny_stack, "/v1/chat/completions", body | {"seed": seed}):
            if choice["finish_reason"] == "stop":
                jsonschema.validate(json.loads(choice["message"]["content"]), SCHEMA)
        _, body = CASES["tool"]
        for choice in whole(tiny_stack, "/v1/chat/completions", body | {"seed": seed}):
            assert choice["finish_reason"] in ("tool_calls", "length")
            if choice["finish_reason"] == "tool_calls":
                call = choice["message"]["tool_calls"][0]["function"]
                assert call["name"] == "act"
                jsonschema.validate(json.loads(call["arguments"]), SCHEMA)
