"""What events and whole answers say, for each endpoint."""

from __future__ import annotations

import json
from typing import Any

import pytest

from baton.services.loadgen.answers import (
    EVENT_READERS,
    WHOLE_READERS,
    AnswerMalformed,
    Said,
    read_error,
)
from baton.services.loadgen.target import Endpoint


def said(endpoint: Endpoint, fields: Any) -> Said:
    return EVENT_READERS[endpoint](json.dumps(fields).encode())


def whole(endpoint: Endpoint, fields: Any) -> Said:
    return WHOLE_READERS[endpoint](json.dumps(fields).encode())


def chat(finish_reason: str | None = None, **delta: Any) -> dict[str, Any]:
    return {"id": "c1", "later": [1], "choices": [{"index": 0, "delta": delta, "finish_reason": finish_reason}]}


def test_a_role_brings_nothing_and_text_does() -> None:
    assert said(Endpoint.CHAT, chat(role="assistant", content="")) == Said(server_id="c1")
    assert said(Endpoint.CHAT, chat(content="héllo")) == Said("héllo", 5, server_id="c1")
    assert said(Endpoint.CHAT, chat(content=None)) == Said(server_id="c1")
    assert said(Endpoint.CHAT, chat("length")) == Said(finish_reason="length", server_id="c1")


def test_reasoning_refusals_and_calls_of_tools_are_generated_but_no_text_of_the_answer() -> None:
    call = {"index": 0, "function": {"name": "look", "arguments": '{"a'}}
    for delta in ({"reasoning_content": "1234567"}, {"reasoning": "1234567"}, {"tool_calls": [call]}):
        assert said(Endpoint.CHAT, chat(**delta)) == Said("", 7, server_id="c1")
    assert said(Endpoint.CHAT, chat(refusal="no")).num_chars == 2


def test_completions_say_text_and_usage() -> None:
    usage = {"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7, "prompt_tokens_details": None}
    fields = {"id": "c2", "choices": [{"text": "ab", "finish_reason": "stop", "logprobs": None}], "usage": usage}
    for read in (said, whole):
        told = read(Endpoint.COMPLETIONS, fields)
        assert (told.text, told.num_chars, told.finish_reason, told.server_id) == ("ab", 2, "stop", "c2")
        assert told.usage is not None
        assert (told.usage.prompt_tokens, told.usage.completion_tokens) == (5, 2)


def test_a_whole_chat_says_its_message() -> None:
    fields = {"id": "c3", "choices": [{"message": {"role": "assistant", "content": "ab"}, "finish_reason": "stop"}]}
    assert whole(Endpoint.CHAT, fields) == Said("ab", 2, "stop", server_id="c3")


def test_a_response_is_deltas_and_a_last_event_that_is_the_end_marker() -> None:
    delta = {"type": "response.output_text.delta", "delta": "ab", "sequence_number": 4}
    assert said(Endpoint.RESPONSES, delta) == Said("ab", 2)
    thought = {"type": "response.reasoning_summary_text.delta", "delta": "abc"}
    assert said(Endpoint.RESPONSES, thought) == Said("", 3)
    assert said(Endpoint.RESPONSES, {"type": "response.created", "response": {"id": "r1"}}) == Said(server_id="r1")
    item = {"type": "message", "content": [{"type": "output_text", "text": "ab"}]}
    usage = {"input_tokens": 5, "output_tokens": 2, "input_tokens_details": {"cached_tokens": 4}}
    response = {"id": "r1", "status": "incomplete", "output": [item], "usage": usage}
    end = said(Endpoint.RESPONSES, {"type": "response.incomplete", "response": response})
    assert (end.text, end.num_chars, end.finish_reason, end.is_end) == ("", 0, "length", True)
    assert end.usage is not None
    assert end.usage.input_tokens_details is not None
    assert end.usage.input_tokens_details.cached_tokens == 4
    at_once = whole(Endpoint.RESPONSES, {**response, "status": "completed"})
    assert (at_once.text, at_once.num_chars, at_once.finish_reason) == ("ab", 2, "stop")


@pytest.mark.parametrize("endpoint", list(Endpoint))
def test_an_error_is_told_in_each_form_that_servers_use(endpoint: Endpoint) -> None:
    for read in (said, whole):
        assert read(endpoint, {"error": {"message": "out of\n memory", "code": 500}}).error == "out of memory"
        assert read(endpoint, {"error": "out of memory"}).error == "out of memory"
        assert read(endpoint, {"object": "error", "message": "out of memory"}).error == "out of memory"
        assert read(endpoint, {"error": {}}).error


def test_a_response_that_failed_is_an_error() -> None:
    assert said(Endpoint.RESPONSES, {"type": "error", "message": "no memory"}).error == "no memory"
    failed = {"type": "response.failed", "response": {"status": "failed", "error": {"message": "no memory"}}}
    assert said(Endpoint.RESPONSES, failed).error == "no memory"


def test_a_finish_reason_may_say_that_the_server_failed() -> None:
    assert said(Endpoint.CHAT, chat("abort")).error == "finish reason 'abort'"
    assert said(Endpoint.COMPLETIONS, {"choices": [{"text": "", "finish_reason": "error"}]}).error


@pytest.mark.parametrize("endpoint", list(Endpoint))
@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"null", b"{}", b'{"a":1}', b'{"choices":1}', b'{"id":"\xff"}'])
def test_json_that_is_no_answer_is_malformed(endpoint: Endpoint, data: bytes) -> None:
    for readers in (EVENT_READERS, WHOLE_READERS):
        with pytest.raises(AnswerMalformed):
            readers[endpoint](data)


def test_the_body_of_an_error_is_told_in_one_line_whatever_it_is() -> None:
    assert read_error(b'{"error":{"message":"too\\nmany"}}') == "too many"
    assert read_error(b"<h1>\n Bad gateway </h1>") == "<h1> Bad gateway </h1>"
    assert read_error(b'{"detail":"no"}') == '{"detail":"no"}'
    assert read_error(b"\xff") == "\N{REPLACEMENT CHARACTER}"
    assert len(read_error(b"x" * 1000)) == 200


def test_nothing_that_a_server_says_is_a_command_to_a_terminal() -> None:
    assert read_error(b"a\x1b[31mb\n\tc\x07") == "a\N{REPLACEMENT CHARACTER}[31mb c\N{REPLACEMENT CHARACTER}"


@pytest.mark.parametrize("count", [-1, 1 << 40, 1.5, "2"])
def test_counts_that_no_answer_has_are_no_answer(count: object) -> None:
    fields = {"choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": count}}
    with pytest.raises(AnswerMalformed, match="completion_tokens"):
        said(Endpoint.CHAT, fields)
