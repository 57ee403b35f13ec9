"""What is sent, on each endpoint."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from baton.services.loadgen.bodies import Bodies, BodySettings, make_bodies
from baton.services.loadgen.content import ContentKind, ContentSettings
from baton.services.loadgen.load_errors import BadLoad
from baton.services.loadgen.plan import PlannedRequest
from baton.services.loadgen.target import Endpoint, Turn

ASKED = PlannedRequest(index=0, text="why?", max_tokens=5)
CHAT = '[{"role": "system", "content": "s"}, {"role": "user", "content": "hi"}]'


def body(request: PlannedRequest = ASKED, history: tuple[Turn, ...] = (), **fields: Any) -> dict[str, Any]:
    settings = BodySettings(**{"model": "m", "endpoint": Endpoint.CHAT, "content": ContentSettings(), **fields})
    made = Bodies(settings)(request, history)
    plain: dict[str, Any] = msgspec.to_builtins(settings)
    assert make_bodies(**json.loads(json.dumps(plain)))(request, history) == made  # as a worker makes it
    return dict(json.loads(made))


def test_a_chat_asks_for_its_exact_length_and_the_usage() -> None:
    assert body() == {
        "model": "m",
        "messages": [{"role": "user", "content": "why?"}],
        "max_tokens": 5,
        "ignore_eos": True,
        "min_tokens": 5,
        "stream": True,
        "stream_options": {"include_usage": True},
    }


def test_answers_may_stop_be_whole_and_have_their_events_counted() -> None:
    whole = body(is_streamed=False, ignore_eos=False, asks_counts=True)
    assert whole.keys() == {"model", "messages", "max_tokens"}
    assert body(asks_counts=True)["stream_options"] == {"include_usage": True, "continuous_usage_stats": True}


def test_further_fields_are_over_all_others() -> None:
    assert body(extra_fields={"temperature": 0, "max_tokens": 7}) | {"temperature": 0} == body() | {
        "temperature": 0,
        "max_tokens": 7,
    }


def test_completions_say_a_text_or_token_ids() -> None:
    completion = body(endpoint=Endpoint.COMPLETIONS)
    assert completion["prompt"] == "why?"
    ids = ContentSettings(kind=ContentKind.TOKENS, first_token_id=3, end_token_id=6)
    asked = PlannedRequest(index=0, num_input_tokens=40, max_tokens=5)
    prompt = body(asked, endpoint=Endpoint.COMPLETIONS, content=ids)["prompt"]
    assert len(prompt) == 40
    assert set(prompt) == {3, 4, 5}


def test_responses_have_names_of_their_own_and_no_field_for_an_exact_length() -> None:
    assert body(endpoint=Endpoint.RESPONSES) == {
        "model": "m",
        "input": [{"role": "user", "content": "why?"}],
        "max_output_tokens": 5,
        "stream": True,
    }


def test_a_later_turn_repeats_what_was_said_and_answered() -> None:
    history = (Turn(PlannedRequest(index=0, text="one", max_tokens=1), "two"),)
    asked = PlannedRequest(index=1, text="three", max_tokens=1, is_next_message=True)
    said = [("user", "one"), ("assistant", "two"), ("user", "three")]
    for endpoint, name in ((Endpoint.CHAT, "messages"), (Endpoint.RESPONSES, "input")):
        messages = body(asked, history, endpoint=endpoint)[name]
        assert [(message["role"], message["content"]) for message in messages] == said
    assert body(asked, history, endpoint=Endpoint.COMPLETIONS)["prompt"] == "one\ntwo\nthree"


def test_messages_of_a_file_are_sent_as_they_stand() -> None:
    asked = PlannedRequest(index=0, messages_json=CHAT, max_tokens=1)
    assert body(asked)["messages"] == json.loads(CHAT)
    with pytest.raises(BadLoad, match="not on completions"):
        body(asked, endpoint=Endpoint.COMPLETIONS)


@pytest.mark.parametrize("endpoint", [Endpoint.CHAT, Endpoint.RESPONSES])
def test_token_ids_are_no_messages(endpoint: Endpoint) -> None:
    asked = PlannedRequest(index=0, num_input_tokens=4, max_tokens=1)
    with pytest.raises(BadLoad, match="not in messages"):
        body(asked, endpoint=endpoint, content=ContentSettings(kind=ContentKind.TOKENS))
