"""Text as clients see it: streamed equals whole, characters are never cut, each choice ends once, scores line up."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from baton.core.executor.steps import SampledToken
from baton.core.router.events import Arrive, Deliver
from tests.services.router.rig import Rig, cut, say

SAMPLES = ["a😀b", "한국어", "👩‍👩‍👧!", "naïve é", "速い\n\n茶色"]


async def streamed(rig: Rig, path: str, body: dict[str, Any]) -> list[dict[str, Any]]:
    events = await rig.events_of(path, body)
    assert events[-1] == "[DONE]"
    return [json.loads(event) for event in events[:-1]]


def text_of(chunks: list[dict[str, Any]], index: int = 0) -> str:
    choices = [choice for chunk in chunks for choice in chunk["choices"] if choice["index"] == index]
    return "".join(choice["text"] if "text" in choice else choice["delta"].get("content", "") for choice in choices)


@pytest.mark.parametrize("text", SAMPLES)
@pytest.mark.parametrize("chunk", [1, 2, 5])
async def test_str_01_wherever_the_end_cuts_streamed_and_whole_text_are_equal(rig: Rig, text: str, chunk: int) -> None:
    rig.machine.script = say(text, "length")
    rig.machine.chunk = chunk
    for max_tokens in range(1, len(text.encode()) + 1):
        body = {"model": "tiny", "prompt": "x", "max_tokens": max_tokens}
        chunks = await streamed(rig, "/v1/completions", body)
        _, answer = await rig.post("/v1/completions", body)
        expected = text.encode()[:max_tokens].decode("utf-8", "replace")
        assert text_of(chunks) == answer["choices"][0]["text"] == expected
        assert expected.count("\ufffd") <= 1
        assert all("\ufffd" not in text_of([part]) for part in chunks if not part["choices"][0]["finish_reason"])


async def test_str_02_a_prompt_that_ends_inside_a_character_does_not_show(rig: Rig) -> None:
    rig.machine.script = say(b"\x9f\x98ok" + "é".encode(), "length")
    prompt = [*b"Hello ", *"速".encode()[:2]]
    chunks = await streamed(rig, "/v1/completions", {"model": "tiny", "prompt": prompt, "max_tokens": 50})
    assert text_of(chunks) == (b"\x9f\x98ok" + "é".encode()).decode("utf-8", "replace")
    assert "Hello" not in text_of(chunks)


async def test_str_02_an_illegal_run_of_bytes_disturbs_nobody(rig: Rig) -> None:
    def script(arrive: Arrive, choice: int) -> tuple[list[int], str]:
        bad = [0xC3, 0xC3, 0xF0, 0x9F, 0x41, 0xFF, 0x80]
        good = list("fine é".encode())
        return cut((bad if arrive.prompt[:1] == b"b" else good, "length"), arrive.sampling.max_tokens)

    rig.machine.script = script
    bodies = [{"model": "tiny", "prompt": name, "max_tokens": 50} for name in ("bad", "good")]
    bad, good = await asyncio.gather(*(streamed(rig, "/v1/completions", body) for body in bodies))
    assert text_of(good) == "fine é"
    assert text_of(bad) == bytes([0xC3, 0xC3, 0xF0, 0x9F, 0x41, 0xFF, 0x80]).decode("utf-8", "replace")


@pytest.mark.parametrize("is_stream", [False, True])
async def test_str_02_an_impossible_token_ends_only_its_own_request(rig: Rig, is_stream: bool) -> None:
    rig.machine.is_held = True
    broken = {"model": "tiny", "prompt": "b", "max_tokens": 50, "stream": is_stream}
    posts = asyncio.create_task(rig.post("/v1/completions", broken))
    await rig.machine.until(lambda: 1 in rig.machine.live)
    rig.machine.is_held = False
    rig.front.perform(Deliver(1, 0, 0, (SampledToken(0, 9_999_999),)))
    await rig.check_alive()
    status, answer = await posts
    assert (status, answer["error"]["code"]) == (500, "undecodable_token")
    await rig.machine.until(lambda: bool(rig.machine.gone))
    assert [gone.request_id for gone in rig.machine.gone] == [1]


@pytest.mark.parametrize("path", ["/v1/completions", "/v1/chat/completions"])
async def test_str_04_each_choice_has_its_own_text_and_one_finish(rig: Rig, path: str) -> None:
    texts = ["short é", "a somewhat longer 😀 one", ""]
    rig.machine.script = lambda arrive, choice: say(texts[choice])(arrive, choice)
    asked: dict[str, Any] = {"model": "tiny", "n": 3, "max_tokens": 100}
    asked |= {"prompt": "x"} if path == "/v1/completions" else {"messages": [{"role": "user", "content": "x"}]}
    answers = await asyncio.gather(
        *(streamed(rig, path, asked | {"stream_options": {"include_usage": True}}) for _ in range(8))
    )
    expected_tokens = sum(len(text.encode()) + 1 for text in texts)
    for chunks in answers:
        assert chunks[-1]["usage"]["completion_tokens"] == expected_tokens
        assert all(chunk["usage"] is None for chunk in chunks[:-1])
        choices = [choice for chunk in chunks for choice in chunk["choices"]]
        finishes = [(choice["index"], choice["finish_reason"]) for choice in choices if choice["finish_reason"]]
        assert sorted(finishes) == [(0, "stop"), (1, "stop"), (2, "stop")]
        assert [text_of(chunks, index) for index in range(3)] == texts
    _, whole = await rig.post(path, asked)
    assert [choice["index"] for choice in whole["choices"]] == [0, 1, 2]
    shown = [choice["text"] if "text" in choice else choice["message"]["content"] for choice in whole["choices"]]
    assert shown == texts
    assert whole["usage"]["completion_tokens"] == expected_tokens


async def test_str_04_a_stop_string_ends_only_its_own_choice(rig: Rig) -> None:
    texts = ["one END two", "no end here"]
    rig.machine.script = lambda arrive, choice: say(texts[choice], "length")(arrive, choice)
    _, answer = await rig.complete(n=2, stop="END", max_tokens=100)
    assert [choice["text"] for choice in answer["choices"]] == ["one ", "no end here"]
    assert [choice["finish_reason"] for choice in answer["choices"]] == ["stop", "length"]


@pytest.mark.parametrize("count", [0, 1, 5])
@pytest.mark.parametrize("chunk", [1, 4])
async def test_str_05_scores_of_a_completion_line_up_with_its_text(rig: Rig, count: int, chunk: int) -> None:
    rig.machine.script = say("añ😀z. END")
    rig.machine.chunk = chunk
    body = {"model": "tiny", "prompt": "x", "max_tokens": 50, "logprobs": count, "stop": "END"}
    _, answer = await rig.post("/v1/completions", body)
    choice, scores = answer["choices"][0], answer["choices"][0]["logprobs"]
    assert choice["text"] == "añ😀z. "
    num_tokens = answer["usage"]["completion_tokens"]
    assert num_tokens == len(choice["text"].encode())
    assert {len(scores[key]) for key in ("tokens", "token_logprobs", "top_logprobs", "text_offset")} == {num_tokens}
    assert scores["tokens"][:3] == ["a", "bytes:\\xc3", "bytes:\\xb1"]
    assert scores["text_offset"] == [0, 1, 1, 2, 2, 2, 2, 3, 4, 5]
    assert all(len(top) == max(count, 1) for top in scores["top_logprobs"])
    chunks = [part["choices"][0] for part in await streamed(rig, "/v1/completions", body)]
    parts = [part["logprobs"] for part in chunks if part["logprobs"]]
    for key, values in scores.items():
        assert [value for part in parts for value in part[key]] == values


async def test_str_05_scores_of_a_chat_have_a_name_bytes_and_alternatives_for_each_token(rig: Rig) -> None:
    rig.machine.script = say("é!")
    _, answer = await rig.chat(logprobs=True, top_logprobs=2, max_tokens=10)
    content = answer["choices"][0]["logprobs"]["content"]
    assert [entry["bytes"] for entry in content[:3]] == [[0xC3], [0xA9], [0x21]]
    assert content[2]["token"] == "!"
    assert content[3]["token"] == "<|eos|>"
    assert len(content) == answer["usage"]["completion_tokens"]
    assert [len(entry["top_logprobs"]) for entry in content] == [2] * 4
    _, without = await rig.chat(logprobs=True, max_tokens=10)
    assert [entry["top_logprobs"] for entry in without["choices"][0]["logprobs"]["content"]] == [[]] * 4
