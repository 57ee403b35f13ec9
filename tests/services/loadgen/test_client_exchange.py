"""One request's facts, from bytes and times that a test writes down."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
import pytest

from baton.core.metrics.chunk_tokens import chunk_tokens
from baton.core.metrics.definitions import figures
from baton.core.metrics.facts import UNKNOWN, Chunk, Failure, RequestFacts
from baton.services.loadgen.client_exchange import Exchange
from baton.services.loadgen.plan import PlannedRequest
from baton.services.loadgen.target import Endpoint
from tests.support.stub_server import (
    DONE,
    LAST_CHUNK,
    STREAM_HEAD,
    chat_event,
    chunked,
    event,
    good_stream,
    usage_event,
    whole,
)

Timed = tuple[float, bytes]


def exchange(is_streamed: bool = True, endpoint: Endpoint = Endpoint.CHAT) -> Exchange:
    made = Exchange(PlannedRequest(index=3, max_tokens=9, session="s", turn=1), 0.5, endpoint, is_streamed, worker=2)
    made.dispatched_s, made.sent_s = 0.6, 0.7
    return made


def facts_of(stream: Iterable[Timed], is_streamed: bool = True, endpoint: Endpoint = Endpoint.CHAT) -> RequestFacts:
    made = exchange(is_streamed, endpoint)
    for time_s, data in stream:
        made.received(data, time_s)
    return made.facts()


def at_once(*pieces: bytes, **options: Any) -> RequestFacts:
    return facts_of([(1.0, b"".join(pieces))], **options)


def stream_of(events: Sequence[bytes]) -> bytes:
    return STREAM_HEAD + b"".join(map(chunked, events)) + LAST_CHUNK


#: role at 10 ms, first text at 100 ms, then four tokens every 40 ms, usage at the end
SCHEDULE: list[Timed] = [
    (0.005, STREAM_HEAD),
    (0.010, chunked(chat_event("", role="assistant"))),
    (0.100, chunked(chat_event("a"))),
    (0.140, chunked(chat_event("bcde"))),
    (0.180, chunked(chat_event("fghi"))),
    (0.181, chunked(chat_event("", "length"))),
    (0.182, chunked(usage_event(50, 9, 32))),
    (0.183, chunked(DONE) + LAST_CHUNK),
]


def test_LDG_02_a_fixed_schedule_gives_exactly_its_times_and_counts() -> None:
    assert facts_of(SCHEDULE) == RequestFacts(
        index=3,
        session="s",
        turn=1,
        worker=2,
        wanted_output_tokens=9,
        scheduled_s=0.5,
        is_due_by_plan=False,
        dispatched_s=0.6,
        sent_s=0.7,
        headers_s=0.005,
        first_event_s=0.010,
        chunks=(Chunk(0.100, 1), Chunk(0.140, 4), Chunk(0.180, 4)),
        done_s=0.183,
        status=200,
        num_input_tokens=50,
        num_cached_tokens=32,
        num_output_tokens=9,
        finish_reason="length",
        server_id="chat-1",
    )


def test_LDG_02_the_same_stream_cut_at_every_byte_gives_the_same_facts() -> None:
    expected = facts_of(SCHEDULE)
    single = [(time_s, data[at : at + 1]) for time_s, data in SCHEDULE for at in range(len(data))]
    assert facts_of(single) == expected
    for number, (time_s, data) in enumerate(SCHEDULE):
        for at in range(1, len(data)):
            cut = [*SCHEDULE[:number], (time_s, data[:at]), (time_s, data[at:]), *SCHEDULE[number + 1 :]]
            assert facts_of(cut) == expected


def test_LDG_02_every_figure_of_the_fixed_schedule_is_the_exact_one_however_it_is_cut() -> None:
    single = [(time_s, data[at : at + 1]) for time_s, data in SCHEDULE for at in range(len(data))]
    for cut in (SCHEDULE, single):
        sent = {"scheduled_s": -0.02, "dispatched_s": -0.01, "sent_s": 0.0}
        found = figures(msgspec.structs.replace(facts_of(cut), **sent))
        assert (found.ttft_s, found.ttft_from_schedule_s) == (0.1, pytest.approx(0.12))
        assert (found.e2e_s, found.e2e_from_schedule_s) == (0.183, pytest.approx(0.203))
        assert found.tpot_s == pytest.approx(0.083 / 8)
        assert found.itl_s == pytest.approx([0.01] * 8)
        assert found.chunk_gap_s == pytest.approx([0.04] * 2)
        assert (found.longest_gap_s, found.schedule_lag_s) == (pytest.approx(0.04), 0.02)
        assert (found.input_tokens, found.cached_tokens, found.output_tokens) == (50, 32, 9)


def test_LDG_02_a_chunk_is_stamped_with_the_bytes_that_complete_it() -> None:
    text = chunked(chat_event("ab"))
    facts = facts_of([(1.0, STREAM_HEAD + text[:20]), (2.0, text[20:-2]), (3.0, text[-2:])])
    assert facts.chunks == (Chunk(2.0, 2),)


def test_LDG_02_an_answer_of_one_token_has_one_chunk() -> None:
    facts = at_once(stream_of(good_stream(["x"], num_tokens=1)))
    assert (facts.chunks, facts.num_output_tokens, facts.failure) == ((Chunk(1.0, 1),), 1, None)


def test_tokens_are_known_for_each_chunk_where_usage_comes_with_each() -> None:
    def usage(num_tokens: int) -> dict[str, int]:
        return {"prompt_tokens": 4, "completion_tokens": num_tokens}

    events = [chat_event("", role="assistant", usage=usage(0)), chat_event("a", usage=usage(1))]
    events += [chat_event("", usage=usage(2)), chat_event("bc", usage=usage(4)), chat_event("", "stop", usage=usage(5))]
    facts = at_once(stream_of([*events, DONE]))
    assert [chunk.num_tokens for chunk in facts.chunks] == [1, 3]
    assert facts.num_output_tokens == 5


def test_counts_that_become_less_count_no_chunk() -> None:
    counts = (3, 1, 5)
    events = [chat_event("ab", usage={"prompt_tokens": 4, "completion_tokens": count}) for count in counts]
    facts = at_once(stream_of([*events, chat_event("", "stop"), DONE]))
    assert min(chunk.num_tokens for chunk in facts.chunks) == UNKNOWN
    assert chunk_tokens(facts) == (2, 1, 2)


def test_tokens_of_a_chunk_are_not_guessed_where_usage_comes_with_the_last_one_alone() -> None:
    last = chat_event("b", "stop", usage={"prompt_tokens": 4, "completion_tokens": 2})
    facts = at_once(stream_of([chat_event("a"), last, DONE]))
    assert [chunk.num_tokens for chunk in facts.chunks] == [UNKNOWN, UNKNOWN]
    assert (facts.num_output_tokens, facts.failure) == (2, None)


def test_the_texts_are_kept_for_the_history() -> None:
    made = exchange()
    made.received(stream_of(good_stream(["one", " two"])), 1.0)
    assert "".join(made.texts) == "one two"
    assert made.has_answer


def test_LDG_01_a_stream_without_its_end_marker_is_a_failure() -> None:
    facts = at_once(stream_of(good_stream()[:-1]))
    assert (facts.failure, facts.finish_reason, len(facts.chunks)) == (Failure.NO_END, "stop", 2)


def test_LDG_01_an_end_marker_that_is_cut_is_none() -> None:
    facts = at_once(stream_of([*good_stream()[:-1], b"data: [DONE]\n"]))
    assert facts.failure is Failure.NO_END
    assert "middle of an event" in facts.detail


def test_LDG_01_an_answer_without_a_finish_reason_is_a_failure() -> None:
    assert at_once(stream_of([chat_event("a"), DONE])).failure is Failure.NO_FINISH
    assert at_once(stream_of([chat_event("a")])).failure is Failure.NO_FINISH


def test_LDG_01_an_error_event_after_status_200_is_a_failure_whatever_comes_after_it() -> None:
    error = event({"error": {"message": "device lost", "type": "server_error"}})
    for told in (error, b"event: error\n" + error, b"event: error\ndata: device lost\n\n"):
        facts = at_once(stream_of([chat_event("a"), told, chat_event("", "stop"), DONE]))
        assert (facts.failure, facts.detail, facts.status) == (Failure.ERROR_EVENT, "device lost", 200)
        assert (len(facts.chunks), facts.finish_reason) == (1, "")


@pytest.mark.parametrize("is_streamed", [True, False])
def test_LDG_01_an_error_as_the_body_of_status_200_is_a_failure(is_streamed: bool) -> None:
    facts = at_once(whole("200 OK", {"error": {"message": "no memory"}}), is_streamed=is_streamed)
    assert (facts.failure, facts.detail) == (Failure.ERROR_EVENT, "no memory")


@pytest.mark.parametrize("is_streamed", [True, False])
@pytest.mark.parametrize("content_type", ["application/json", "text/event-stream"])
def test_LDG_01_an_empty_body_of_status_200_is_a_failure(is_streamed: bool, content_type: str) -> None:
    assert at_once(whole("200 OK", b"", content_type), is_streamed=is_streamed).failure is Failure.EMPTY


def test_LDG_01_a_stream_that_ends_in_order_without_a_token_is_a_failure() -> None:
    assert at_once(stream_of([DONE])).failure is Failure.EMPTY
    assert at_once(stream_of([chat_event("", "stop"), usage_event(5, 0), DONE])).failure is Failure.EMPTY


def test_an_answer_whose_tokens_make_no_text_is_no_failure() -> None:
    facts = at_once(stream_of([chat_event("", "stop"), usage_event(5, 1), DONE]))
    assert (facts.failure, facts.chunks, facts.num_output_tokens) == (None, (), 1)


def test_LDG_01_a_refusal_is_told_with_what_the_server_said() -> None:
    body = {"error": {"message": "queue full"}}
    facts = at_once(whole("503 Service Unavailable", body, headers="Retry-After: 2\r\n"))
    assert (facts.failure, facts.status) == (Failure.REFUSED, 503)
    assert facts.detail == "status 503: queue full (retry after 2 s)"
    assert at_once(whole("429 Too Many Requests", body)).failure is Failure.REFUSED


@pytest.mark.parametrize("status", ["400 Bad Request", "500 Internal Server Error", "202 Accepted", "302 Found"])
def test_another_status_than_200_is_a_failure(status: str) -> None:
    assert at_once(whole(status, {"error": {"message": "x"}})).failure is Failure.HTTP_ERROR


def test_LDG_01_repeated_chunks_are_chunks_and_no_tokens() -> None:
    text = chat_event("ab")
    facts = at_once(stream_of([text, text, text, chat_event("", "stop"), usage_event(5, 1), DONE]))
    assert (len(facts.chunks), facts.num_output_tokens, facts.failure) == (3, 1, None)


@pytest.mark.parametrize(
    "data",
    [
        b"HTTP/2 200\r\n\r\n",
        STREAM_HEAD + chunked(b"data: {\n\n"),
        STREAM_HEAD + chunked(b'data: {"a": 1}\n\n'),
        STREAM_HEAD + chunked(b"<html>\n"),
        STREAM_HEAD + b"zz\r\n",
        whole("200 OK", {"choices": [{"message": {"content": "a"}, "finish_reason": "stop"}]}),
        whole("200 OK", b"<html>"),
        whole("200 OK", b"x", headers="Content-Encoding: gzip\r\n"),
    ],
)
def test_what_is_no_answer_of_the_api_is_malformed(data: bytes) -> None:
    assert at_once(data).failure is Failure.MALFORMED


def test_a_whole_answer_is_one_chunk() -> None:
    choice = {"message": {"role": "assistant", "content": "ab"}, "finish_reason": "stop"}
    body = {"id": "c", "choices": [choice], "usage": {"prompt_tokens": 5, "completion_tokens": 2}}
    facts = at_once(whole("200 OK", body), is_streamed=False)
    assert (facts.failure, facts.chunks, facts.is_whole) == (None, (Chunk(1.0, 2, 2),), True)
    assert (facts.done_s, facts.finish_reason, facts.num_input_tokens) == (1.0, "stop", 5)


def test_a_response_needs_no_other_end_marker_than_its_last_event() -> None:
    response = {"id": "r", "status": "completed", "usage": {"input_tokens": 5, "output_tokens": 1}}
    events = [
        {"type": "response.output_text.delta", "delta": "a"},
        {"type": "response.completed", "response": response},
    ]
    lines = [b"data: %b\n\n" % json.dumps(fields).encode() for fields in events]
    facts = at_once(stream_of(lines), endpoint=Endpoint.RESPONSES)
    assert (facts.failure, facts.finish_reason, facts.num_output_tokens) == (None, "stop", 1)
    assert at_once(stream_of(lines[:1]), endpoint=Endpoint.RESPONSES).failure is Failure.NO_FINISH


def test_a_connection_that_ends_in_the_middle_is_lost() -> None:
    for data in (b"", STREAM_HEAD[:9], STREAM_HEAD, STREAM_HEAD + chunked(chat_event("a"))):
        made = exchange()
        made.received(data, 1.0)
        made.closed("", 2.0)
        facts = made.facts()
        assert (facts.failure, facts.done_s) == (Failure.LOST, 2.0)


def test_a_body_without_a_length_ends_with_its_connection_but_not_by_a_reset() -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"
    for error, failure in (("", Failure.NO_END), ("reset", Failure.LOST)):
        made = exchange()
        made.received(head + b"".join(good_stream()[:-1]), 1.0)
        made.closed(error, 2.0)
        assert made.facts().failure is failure


def test_after_the_end_marker_nothing_changes_a_fact() -> None:
    made = exchange()
    made.received(stream_of(good_stream())[: -len(LAST_CHUNK)], 1.0)
    facts = made.facts()
    assert facts.done_s == 1.0
    made.received(chunked(chat_event("more")), 2.0)
    made.closed("reset", 3.0)
    made.cancel("late", 4.0)
    made.fail(Failure.STALLED, "late", 5.0)
    assert made.facts() == facts
    assert made.is_success


def test_what_this_side_ended_is_neither_a_success_nor_a_failure() -> None:
    made = exchange()
    made.received(STREAM_HEAD + chunked(chat_event("a")), 1.0)
    made.cancel("as planned", 2.0)
    facts = made.facts()
    assert (facts.is_cancelled, facts.failure, facts.done_s, len(facts.chunks)) == (True, None, 2.0, 1)
    assert not made.is_success
    assert made.has_answer
