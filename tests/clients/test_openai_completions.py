"""OpenAI's client and /v1/completions."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from tests.clients.asked import TEXT
from tests.services.router.rig import Rig, say
from tests.support.openai_callers import Caller


def complete(client: Any, **fields: Any) -> Any:
    return client.completions.create(**{"model": "tiny", "prompt": "hello", "max_tokens": 500} | fields)


@pytest.mark.parametrize("chunk", [1, 1000])
async def test_a_completion_is_the_same_whole_and_streamed(rig: Rig, caller: Caller, chunk: int) -> None:
    rig.machine.script, rig.machine.chunk = say(TEXT), chunk
    answer = await caller.call(complete)
    assert (answer.choices[0].text, answer.choices[0].finish_reason) == (TEXT, "stop")
    parts = await caller.read(partial(complete, stream=True, stream_options={"include_usage": True}))
    assert "".join(part.choices[0].text for part in parts[:-1]) == TEXT
    assert (parts[-1].choices, parts[-1].usage) == ([], answer.usage)


async def test_every_prompt_has_its_choices(rig: Rig, caller: Caller) -> None:
    """The default script says the prompt again, each further choice from one token later."""
    asked = partial(complete, prompt=["abc", "xyz"], n=2, max_tokens=4)
    texts = ["abca", "bcab", "xyzx", "yzxy"]
    answer = await caller.call(asked)
    assert [choice.text for choice in answer.choices] == texts
    found = [""] * 4
    for part in await caller.read(partial(asked, stream=True)):
        found[part.choices[0].index] += part.choices[0].text
    assert found == texts


async def test_token_ids_echo_and_stop(rig: Rig, caller: Caller) -> None:
    assert (await caller.call(partial(complete, prompt=[*b"abc"], max_tokens=3))).choices[0].text == "abc"
    assert (await caller.call(partial(complete, prompt="abc", max_tokens=2, echo=True))).choices[0].text == "abcab"
    cut = await caller.call(partial(complete, prompt="abc", stop=["ca"]))
    assert (cut.choices[0].text, cut.choices[0].finish_reason) == ("ab", "stop")


async def test_log_probabilities_are_lists_of_one_length(rig: Rig, caller: Caller) -> None:
    asked = partial(complete, prompt="abc", max_tokens=3, logprobs=1)
    scores = (await caller.call(asked)).choices[0].logprobs
    assert (scores.tokens, scores.text_offset) == (["a", "b", "c"], [0, 1, 2])
    assert (scores.token_logprobs, scores.top_logprobs[0]) == ([-0.5] * 3, {"a": -0.5})
    parts = [part.choices[0].logprobs for part in await caller.read(partial(asked, stream=True))]
    for name in ("tokens", "text_offset", "token_logprobs", "top_logprobs"):
        assert [value for part in parts if part for value in getattr(part, name)] == getattr(scores, name)


async def test_the_seed_reaches_the_machine_and_best_of_one_is_taken(rig: Rig, caller: Caller) -> None:
    await caller.call(partial(complete, seed=42, best_of=1, suffix=None))
    assert rig.machine.arrives[1].sampling.seed == 42
