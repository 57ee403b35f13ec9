"""The two endpoints as OpenAI's own client sees them."""

from __future__ import annotations

import asyncio
import json

import openai
import pytest

from baton.core.errors import Reason
from baton.core.router.events import Arrive, End
from tests.services.router.rig import EOS, IM_START, Rig, echo, prompt_ids, say


async def test_a_completion_is_answered_with_its_usage(rig: Rig) -> None:
    rig.machine.num_cached_tokens = 3
    answer = await rig.client.completions.create(model="tiny", prompt="hello", max_tokens=7)
    assert answer.choices[0].text == "hellohe"
    assert answer.choices[0].finish_reason == "length"
    assert (answer.usage.prompt_tokens, answer.usage.completion_tokens, answer.usage.total_tokens) == (5, 7, 12)
    assert answer.usage.prompt_tokens_details.cached_tokens == 3
    assert answer.id.startswith("cmpl-")


async def test_a_completion_has_sixteen_tokens_unless_told_otherwise(rig: Rig) -> None:
    answer = await rig.client.completions.create(model="tiny", prompt="hello")
    assert answer.usage.completion_tokens == 16


async def test_a_chat_may_use_the_rest_of_the_context(rig: Rig) -> None:
    rig.machine.script = say("fine")
    messages = [{"role": "system", "content": "be brief"}, {"role": "user", "content": "how are you?"}]
    answer = await rig.client.chat.completions.create(model="tiny", messages=messages)
    assert answer.choices[0].message.content == "fine"
    assert answer.choices[0].finish_reason == "stop"
    arrive: Arrive = rig.machine.events[0]
    assert arrive.sampling.max_tokens == rig.front.limits.max_model_len - arrive.num_tokens
    assert prompt_ids(arrive)[0] == IM_START
    assert bytes(token for token in prompt_ids(arrive) if token < 256).decode() == (
        "system\nbe brief\nuser\nhow are you?\nassistant\n"
    )


async def test_a_streamed_chat_has_role_text_finish_usage_and_done(rig: Rig) -> None:
    rig.machine.script = say("good morning")
    messages = [{"role": "user", "content": [{"type": "text", "text": "hi"}, {"type": "text", "text": " there"}]}]
    stream = await rig.client.chat.completions.create(
        model="tiny", messages=messages, stream=True, stream_options={"include_usage": True}
    )
    chunks = [chunk async for chunk in stream]
    assert chunks[0].choices[0].delta.role == "assistant"
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks[:-1]) == "good morning"
    assert [chunk.choices[0].finish_reason for chunk in chunks[:-1] if chunk.choices[0].finish_reason] == ["stop"]
    assert chunks[-1].choices == []
    assert chunks[-1].usage.completion_tokens == len("good morning") + 1
    assert len({chunk.id for chunk in chunks}) == 1


async def test_a_stream_ends_with_done_and_names_its_request(rig: Rig) -> None:
    body = {"model": "tiny", "prompt": "abc", "max_tokens": 5}
    events = await rig.events_of("/v1/completions", body)
    assert events[-1] == "[DONE]"
    parsed = [json.loads(event) for event in events[:-1]]
    assert all("usage" not in event for event in parsed)
    assert "".join(event["choices"][0]["text"] for event in parsed) == "abcab"


@pytest.mark.parametrize("endpoint", ["/v1/completions", "/v1/chat/completions"])
async def test_what_comes_at_once_is_written_at_once(rig: Rig, endpoint: str) -> None:
    rig.machine.chunk = 1000
    prompt = {"prompt": "abc"} if endpoint == "/v1/completions" else {"messages": [{"role": "user", "content": "abc"}]}
    events = await rig.events_of(endpoint, {"model": "tiny", "max_tokens": 100} | prompt)
    assert len(events) == (2 if "prompt" in prompt else 3)


def test_the_synchronous_client_works_too(rig_thread: Rig) -> None:
    client = openai.OpenAI(base_url=rig_thread.url + "/v1", api_key="none", max_retries=0)
    with client:
        assert client.models.list().data[0].id == "tiny"
        stream = client.completions.create(model="tiny", prompt="xy", max_tokens=5, stream=True)
        assert "".join(chunk.choices[0].text for chunk in stream) == "xyxyx"


async def test_parameters_reach_the_machine_as_they_were_given(rig: Rig) -> None:
    fields = {"temperature": 0.5, "top_p": 0.9, "top_k": 7, "min_p": 0.1, "seed": 11, "presence_penalty": 1.0,
              "frequency_penalty": -1.0, "repetition_penalty": 1.2, "min_tokens": 2, "stop_token_ids": [5],
              "logit_bias": {"9": 3.0}, "n": 2, "priority": 3, "timeout": 12.5, "user": "someone"}  # fmt: skip
    status, _ = await rig.complete(**fields)
    assert status == 200
    arrive: Arrive = rig.machine.events[0]
    sampling = arrive.sampling
    assert (sampling.temperature, sampling.top_p, sampling.top_k, sampling.min_p) == (0.5, 0.9, 7, 0.1)
    assert (sampling.presence_penalty, sampling.frequency_penalty, sampling.repetition_penalty) == (1.0, -1.0, 1.2)
    assert (sampling.seed, sampling.min_tokens, sampling.logit_bias) == (11, 2, ((9, 3.0),))
    assert sampling.stop_token_ids == (EOS, 259, 5)
    assert (arrive.num_choices, arrive.priority_class, arrive.timeout_s) == (2, 3, 12.5)


async def test_ignoring_the_end_keeps_the_clients_own_stop_tokens(rig: Rig) -> None:
    await rig.complete(ignore_eos=True, stop_token_ids=[7])
    assert rig.machine.events[0].sampling.stop_token_ids == (7,)


async def test_a_stop_token_of_the_client_ends_the_text_before_it(rig: Rig) -> None:
    rig.machine.script = lambda arrive, choice: ([*b"abc", ord("!")], "stop")
    _, answer = await rig.complete(stop_token_ids=[ord("!")])
    assert answer["choices"][0]["text"] == "abc"
    assert answer["usage"]["completion_tokens"] == 4


async def test_requests_without_a_seed_get_different_ones(rig: Rig) -> None:
    await rig.complete()
    await rig.complete()
    first, second = (event.sampling.seed for event in rig.machine.events if isinstance(event, Arrive))
    assert first != second


async def test_both_forms_of_the_same_prompt_have_the_same_hashes_and_a_salt_changes_them(rig: Rig) -> None:
    text = "The quick brown fox jumps over the lazy dog."
    await rig.complete(prompt=text)
    await rig.complete(prompt=[list(text.encode())])
    await rig.complete(prompt=text, cache_salt="mine")
    plain, ids, salted = (event for event in rig.machine.events if isinstance(event, Arrive))
    assert plain.hashes == ids.hashes
    assert len(plain.hashes) == 16 * (len(text) // 16)
    assert salted.root != plain.root
    assert salted.hashes[:16] != plain.hashes[:16]


async def test_a_stop_string_ends_text_usage_and_the_choice_at_the_machine(rig: Rig) -> None:
    rig.machine.script = say("one, two STOP three four five six", "length")
    status, answer = await rig.complete(stop=["STOP", "never"], max_tokens=100)
    assert status == 200
    assert answer["choices"][0]["text"] == "one, two "
    assert answer["choices"][0]["finish_reason"] == "stop"
    assert answer["usage"]["completion_tokens"] == len("one, two ")
    assert [(stop.choice, stop.offset) for stop in rig.machine.stops] == [(0, len("one, two "))]


async def test_min_tokens_keeps_an_early_stop_string_from_ending_the_text(rig: Rig) -> None:
    rig.machine.script = say("xx..ab..cd", "length")
    _, answer = await rig.complete(stop="..", min_tokens=3, max_tokens=100)
    assert answer["choices"][0]["text"] == "xx..ab"


REFUSALS = [
    (Reason.QUEUE_FULL, 429, True),
    (Reason.NO_EXECUTOR, 503, True),
    (Reason.DRAINING, 503, True),
    (Reason.NEVER_FITS, 400, False),
    (Reason.DEADLINE, 504, False),
    (Reason.TOO_MANY_ATTEMPTS, 503, True),
    (Reason.GRAMMAR_FAILED, 422, False),
    (Reason.STEP_FAILED, 500, False),
    (Reason.INTERNAL, 500, False),
]


@pytest.mark.parametrize(("reason", "status", "may_retry"), REFUSALS)
@pytest.mark.parametrize("is_stream", [False, True])
async def test_a_refusal_has_its_status_its_code_and_its_numbers(
    rig: Rig, reason: Reason, status: int, may_retry: bool, is_stream: bool
) -> None:
    rig.machine.refusal = End(0, reason, {"needed": 12, "free": 7})
    body = {"model": "tiny", "prompt": "hello", "stream": is_stream}
    async with rig.http.post(rig.url + "/v1/completions", json=body) as response:
        assert response.status == status
        error = (await response.json())["error"]
        assert ("Retry-After" in response.headers) == may_retry
    assert error["code"] == reason.name.lower()
    assert "needed=12" in error["message"]


async def deliver_when_there(rig: Rig, count: int) -> None:
    """The first tokens of the first request, once it is there."""
    await rig.machine.until(lambda: 1 in rig.machine.live)
    rig.machine.deliver(1, 0, count)


async def test_a_failure_in_mid_stream_is_an_error_event_without_done(rig: Rig) -> None:
    rig.machine.is_held = True
    delivering = asyncio.create_task(deliver_when_there(rig, 5))
    body = {"model": "tiny", "prompt": "hello", "max_tokens": 50, "stream": True}
    async with rig.http.post(rig.url + "/v1/completions", json=body) as response:
        assert b"hello" in await response.content.readline()
        rig.machine.end(1, Reason.PEER_LOST)
        rest = (await response.content.read()).decode()
    assert '"code":"peer_lost"' in rest
    assert "[DONE]" not in rest
    await delivering


async def test_the_openai_client_raises_on_a_failure_in_mid_stream(rig: Rig) -> None:
    rig.machine.is_held = True
    delivering = asyncio.create_task(deliver_when_there(rig, 5))
    stream = await rig.client.completions.create(model="tiny", prompt="hello", max_tokens=50, stream=True)
    rig.machine.end(1, Reason.PEER_LOST)
    with pytest.raises(openai.APIError, match="lost"):
        [chunk async for chunk in stream]
    await delivering


async def test_without_an_executor_requests_are_refused_before_they_are_tokenized(rig: Rig) -> None:
    rig.front.limits = None
    assert (await rig.complete())[0] == 503
    async with rig.http.get(rig.url + "/ready") as response:
        assert response.status == 503


async def test_the_other_pages_answer(rig: Rig) -> None:
    models = await rig.client.models.list()
    assert [entry.id for entry in models.data] == ["tiny", "tiny-alias"]
    assert (await rig.client.models.retrieve("tiny-alias")).id == "tiny-alias"
    with pytest.raises(openai.NotFoundError):
        await rig.client.models.retrieve("other")
    for path, start in [("/health", b"{"), ("/ready", b"{"), ("/metrics", b"#")]:
        async with rig.http.get(rig.url + path) as response:
            assert response.status == 200
            assert (await response.read()).startswith(start)


async def test_unknown_paths_methods_and_models_get_the_same_error_shape(rig: Rig) -> None:
    assert (await rig.post("/v1/nothing", {}))[0] == 404
    async with rig.http.get(rig.url + "/v1/completions") as response:
        assert response.status == 405
        assert (await response.json())["error"]["code"] == "method_not_allowed"
    status, answer = await rig.complete(model="other")
    assert (status, answer["error"]["code"], answer["error"]["param"]) == (404, "model_not_found", "model")


async def test_echo_is_the_default_script(rig: Rig) -> None:
    rig.machine.script = echo
    await rig.check_alive()
