"""Several prompts in one request, prompts that are shown, and their scores."""

from __future__ import annotations

import asyncio
import json
import logging
from typing import Any

import pytest

from baton.core.errors import Reason
from baton.services.router.api.tokenizing import PIECE_TOKENS
from baton.services.router.text.model_folder import RouterModel
from tests.services.router.rig import Rig, open_rig
from tests.support.raw_http import asked_and_not_read

MESSAGES = [{"role": "user", "content": "x"}]
TOOL = {"type": "function", "function": {"name": "f"}}
PROMPTS = ["one", "zwei", "trois"]


async def complete(rig: Rig, **fields: Any) -> dict[str, Any]:
    status, answer = await rig.complete(**fields)
    assert status == 200, answer
    return answer


async def chunks_of(rig: Rig, path: str = "/v1/completions", **fields: Any) -> list[dict[str, Any]]:
    events = await rig.events_of(path, {"model": "tiny", "max_tokens": 6} | fields)
    assert events[-1] == "[DONE]"
    return [json.loads(event) for event in events[:-1]]


@pytest.mark.parametrize("kind", [str, list])
async def test_each_prompt_is_answered_n_times_and_choices_are_numbered_through(rig: Rig, kind: type) -> None:
    prompts = PROMPTS if kind is str else [list(prompt.encode()) for prompt in PROMPTS]
    answer = await complete(rig, prompt=prompts, n=2, max_tokens=3)
    texts = [choice["text"] for choice in answer["choices"]]
    assert texts == ["one", "neo", "zwe", "wei", "tro", "roi"]  # the script begins each choice one token later
    assert [choice["index"] for choice in answer["choices"]] == list(range(6))
    num_prompt = sum(map(len, PROMPTS))
    assert (answer["usage"]["prompt_tokens"], answer["usage"]["completion_tokens"]) == (num_prompt, 18)


async def test_a_stream_of_several_prompts_has_the_same_texts_and_ends_each_choice_once(rig: Rig) -> None:
    whole = await complete(rig, prompt=PROMPTS, n=2, max_tokens=5)
    chunks = await chunks_of(rig, prompt=PROMPTS, n=2, max_tokens=5)
    choices = [choice for chunk in chunks for choice in chunk["choices"]]
    for expected in whole["choices"]:
        mine = [choice for choice in choices if choice["index"] == expected["index"]]
        assert "".join(choice["text"] for choice in mine) == expected["text"]
        assert [choice["finish_reason"] for choice in mine if choice["finish_reason"]] == [expected["finish_reason"]]


async def test_one_prompt_that_fails_ends_the_whole_answer_and_the_others(rig: Rig) -> None:
    rig.machine.is_held = True
    asking = asyncio.create_task(rig.complete(prompt=PROMPTS))
    await rig.machine.until(lambda: len(rig.machine.live) == 3)
    rig.machine.end(2, Reason.NO_EXECUTOR)
    status, answer = await asking
    assert (status, answer["error"]["code"]) == (503, "no_executor")
    await rig.machine.until(lambda: len(rig.machine.gone) == 2)
    assert sorted(gone.request_id for gone in rig.machine.gone) == [1, 3]
    assert rig.front.num_streams == 0


@pytest.mark.parametrize("fields", [{}, {"logprobs": 2}, {"logprobs": 0, "n": 2}, {"stop": ["o"]}])
async def test_an_echo_shows_the_prompt_before_the_output(rig: Rig, fields: dict[str, Any]) -> None:
    plain = await complete(rig, prompt="café", max_tokens=6, **fields)
    shown = await complete(rig, prompt="café", max_tokens=6, echo=True, **fields)
    for before, after in zip(plain["choices"], shown["choices"], strict=True):
        assert after["text"] == "café" + before["text"]
        if "logprobs" not in fields:
            continue
        scores, output = after["logprobs"], before["logprobs"]
        assert scores["token_logprobs"][:5] == [None, -0.25, -0.25, -0.25, -0.25]
        assert scores["top_logprobs"][0] is None
        assert all(len(scores[name]) == 5 + len(output[name]) for name in output)
        assert scores["tokens"][5:] == output["tokens"]
        assert scores["text_offset"][:5] == [0, 1, 2, 3, 3]  # é has two bytes, and shows with the second
        assert scores["text_offset"][5:] == [4 + offset for offset in output["text_offset"]]


@pytest.mark.parametrize("fields", [{}, {"logprobs": 1}, {"logprobs": 0, "n": 2}])
async def test_a_streamed_echo_equals_the_whole_one(rig: Rig, fields: dict[str, Any]) -> None:
    whole = await complete(rig, prompt=["ab", "cd"], max_tokens=4, echo=True, **fields)
    chunks = await chunks_of(rig, prompt=["ab", "cd"], max_tokens=4, echo=True, **fields)
    choices = [choice for chunk in chunks for choice in chunk["choices"]]
    for expected in whole["choices"]:
        mine = [choice for choice in choices if choice["index"] == expected["index"]]
        assert "".join(choice["text"] for choice in mine) == expected["text"]
        for name in expected["logprobs"] or ():
            assert [one for choice in mine for one in choice["logprobs"][name]] == expected["logprobs"][name]


async def test_an_echo_with_scores_has_those_of_the_prompt_only_where_they_are_asked_for(rig: Rig) -> None:
    fields = {"prompt": "abc", "max_tokens": 2, "echo": True, "logprobs": 3}
    (choice,) = (await complete(rig, **fields))["choices"]
    assert "prompt_logprobs" not in choice
    (choice,) = (await complete(rig, **fields, prompt_logprobs=1))["choices"]
    assert [entry and list(entry) for entry in choice["prompt_logprobs"]] == [None, ["98"], ["99"]]
    assert all(len(top) == 3 for top in choice["logprobs"]["top_logprobs"][1:])


async def test_api_01_an_echo_without_output_is_the_prompt_with_its_scores(rig: Rig) -> None:
    for stream in (False, True):
        if stream:
            chunks = await chunks_of(rig, prompt="abc", max_tokens=0, echo=True, logprobs=1)
            answer = {"choices": [choice for chunk in chunks for choice in chunk["choices"]]}
        else:
            answer = await complete(rig, prompt="abc", max_tokens=0, echo=True, logprobs=1)
            assert answer["usage"]["completion_tokens"] == 0
        assert "".join(choice["text"] for choice in answer["choices"]) == "abc"
        scores = [choice["logprobs"] for choice in answer["choices"] if choice["logprobs"]]
        assert [token for one in scores for token in one["tokens"]] == ["a", "b", "c"]
        assert [value for one in scores for value in one["token_logprobs"]] == [None, -0.25, -0.25]
        assert answer["choices"][-1]["finish_reason"] == "length"


async def test_control_tokens_are_shown_where_the_prompt_names_them(rig: Rig) -> None:
    answer = await complete(rig, prompt="<|im_start|>hi", max_tokens=1, echo=True)
    assert answer["choices"][0]["text"].startswith("<|im_start|>hi")


async def test_prompt_logprobs_name_each_token_by_its_id(rig: Rig) -> None:
    own = {"logprob": -0.25, "rank": 1, "decoded_token": "b"}
    answer = await complete(rig, prompt=["ab", "cd"], prompt_logprobs=1, max_tokens=1)
    assert answer["choices"][0]["prompt_logprobs"] == [None, {"98": own}]
    assert answer["choices"][1]["prompt_logprobs"] == [None, {"100": own | {"decoded_token": "d"}}]
    unranked = await complete(rig, prompt="ab", prompt_logprobs=0, max_tokens=1)
    assert unranked["choices"][0]["prompt_logprobs"] == [None, {"98": own | {"rank": None}}]
    _, chat = await rig.chat(prompt_logprobs=1)
    assert chat["prompt_logprobs"][0] is None
    assert len(chat["prompt_logprobs"]) == chat["usage"]["prompt_tokens"]


async def test_a_scored_prompt_has_a_limit_of_its_own(model: RouterModel) -> None:
    async with open_rig(model, max_scored_prompt_tokens=10) as rig:
        for fields in ({"prompt_logprobs": 0}, {"echo": True, "logprobs": 1}):
            assert (await rig.complete(prompt="x" * 10, **fields))[0] == 200
            status, answer = await rig.complete(prompt="x" * 11, **fields)
            assert (status, answer["error"]["param"], answer["error"]["code"]) == (400, "prompt", "too_many")
        assert (await rig.complete(prompt="x" * 11, echo=True))[0] == 200


async def test_usage_in_every_event_counts_up_to_the_last(rig: Rig) -> None:
    rig.machine.chunk = 1
    for path, asked in (
        ("/v1/completions", {"prompt": "abc"}),
        ("/v1/chat/completions", {"messages": [{"role": "user", "content": "abc"}]}),
    ):
        chunks = await chunks_of(rig, path, stream_options={"continuous_usage_stats": True}, **asked)
        counts = [chunk["usage"]["completion_tokens"] for chunk in chunks]
        assert counts == sorted(counts)
        assert counts[-1] == 6
        assert not chunks[-1]["choices"]
        assert all(chunk["usage"]["prompt_tokens"] == chunks[0]["usage"]["prompt_tokens"] > 0 for chunk in chunks)


async def test_a_default_length_of_the_server_stands_for_both_endpoints(model: RouterModel) -> None:
    messages = [{"role": "user", "content": "a"}]
    asked = {"/v1/completions": {"prompt": "a"}, "/v1/chat/completions": {"messages": messages}}
    async with open_rig(model, default_max_tokens=7) as rig:
        for path, fields in asked.items():
            for more, expected in (({}, 7), ({"max_tokens": 9}, 9), ({"min_tokens": 8}, 8)):
                _, answer = await rig.post(path, {"model": "tiny"} | fields | more)
                assert answer["usage"]["completion_tokens"] == expected


async def test_tokenize_and_detokenize_are_inverse_and_agree_with_prompts(rig: Rig) -> None:
    asked = {"model": "tiny", "prompt": "naïve<|im_end|>", "return_token_strs": True}
    status, told = await rig.post("/tokenize", asked)
    assert status == 200
    assert told["tokens"] == [*"naïve".encode(), 259]
    assert told["count"] == len(told["tokens"]) == len(told["token_strs"])
    assert told["max_model_len"] == 4096
    status, text = await rig.post("/detokenize", {"tokens": told["tokens"]})
    assert (status, text) == (200, {"prompt": "naïve<|im_end|>"})
    messages = [{"role": "user", "content": "hi"}]
    _, chat = await rig.post("/tokenize", {"messages": messages})
    _, answer = await rig.chat(messages=messages)
    assert chat["count"] == answer["usage"]["prompt_tokens"]


async def test_the_tokens_of_a_long_text_come_in_pieces_and_are_all_there(rig: Rig) -> None:
    for num_tokens in (0, 1, PIECE_TOKENS - 1, PIECE_TOKENS, 2 * PIECE_TOKENS + 1):
        text = ("abé" * num_tokens).encode()[:num_tokens].decode(errors="replace")
        _, told = await rig.post("/tokenize", {"prompt": text, "return_token_strs": True})
        assert told["tokens"] == list(text.encode())
        assert told["count"] == len(told["token_strs"]) == len(told["tokens"])
        assert told["token_strs"][:2] == ["a", "b"][:num_tokens]


async def test_who_does_not_read_its_tokens_is_cut_off(model: RouterModel, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "baton.router.access")
    async with open_rig(model, stop_grace_s=0.5, stall_timeout_s=0.1) as rig:
        # each character has two tokens, each with a long name: several megabytes, more than the sockets' buffers hold
        asked = {"prompt": "é" * 200_000, "return_token_strs": True}
        with asked_and_not_read(rig.port, "/tokenize", asked):
            while not caplog.records:
                async with rig.http.get(rig.url + "/health") as response:
                    assert response.status == 200
    assert [record.fields["code"] for record in caplog.records] == ["stalled"]


@pytest.mark.parametrize(
    ("path", "body", "param"),
    [
        ("/tokenize", {}, "prompt"),
        ("/tokenize", {"prompt": "x", "messages": []}, "prompt"),
        ("/tokenize", {"messages": []}, "messages"),
        ("/tokenize", {"prompt": 1}, "prompt"),
        ("/tokenize", {"prompt": "x", "tools": [TOOL]}, "tools"),
        ("/tokenize", {"messages": MESSAGES, "tools": [TOOL] * 2}, "tools[1].function.name"),
        ("/tokenize", {"messages": MESSAGES, "tools": [TOOL] * 129}, "tools"),
        ("/detokenize", {"tokens": [260]}, "tokens"),
        ("/detokenize", {"tokens": ["a"]}, "tokens[0]"),
    ],
)
async def test_what_cannot_be_tokenized_is_refused_by_name(
    rig: Rig, path: str, body: dict[str, Any], param: str
) -> None:
    status, answer = await rig.post(path, body)
    assert (status, answer["error"]["param"]) == (400, param)
    rest = {"prompt": "x"} if path == "/tokenize" else {"tokens": []}
    status, answer = await rig.post(path, {"model": "other"} | rest)
    assert (status, answer["error"]["code"]) == (404, "model_not_found")
