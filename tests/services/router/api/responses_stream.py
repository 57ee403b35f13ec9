"""Streams of /v1/responses, read by the rules that OpenAI's own types and client have for them."""

from __future__ import annotations

import json
from typing import Any

import pydantic
from openai.types.responses import Response, ResponseStreamEvent

from tests.services.router.rig import Rig

EVENT: pydantic.TypeAdapter[Any] = pydantic.TypeAdapter(ResponseStreamEvent)
ENDS = ("response.completed", "response.incomplete", "response.failed")
OWN = {"store"}  #: what this API says beside the fields of OpenAI's type


def typed(answer: dict[str, Any]) -> Response:
    """The answer as OpenAI's type, no field of which is missing or of another type."""
    response = Response.model_validate(answer)
    assert set(response.model_extra or {}) == OWN
    return response


def lasting(answer: dict[str, Any]) -> dict[str, Any]:
    """What of an answer is the same each time: without ids and times."""
    changing = ("id", "call_id", "created_at", "completed_at")
    output = [{key: value for key, value in item.items() if key not in changing} for item in answer["output"]]
    return {key: value for key, value in answer.items() if key not in changing} | {"output": output}


def events_in(text: str) -> list[dict[str, Any]]:
    """The events of a stream's text; each has a line with its name and one with its data."""
    events = []
    for block in text.removesuffix("\n\n").split("\n\n"):
        name, data = block.split("\n")
        event = json.loads(data.removeprefix("data: "))
        assert name == f"event: {event['type']}"
        events.append(event)
    return events


async def stream_of(rig: Rig, **fields: Any) -> list[dict[str, Any]]:
    body = {"model": "tiny", "input": "hello", "stream": True} | fields
    async with rig.http.post(rig.url + "/v1/responses", json=body) as response:
        assert response.status == 200, await response.text()
        assert response.content_type == "text/event-stream"
        return events_in(await response.text())


def told(events: list[dict[str, Any]]) -> dict[str, Any]:
    """The last response of a stream; asserts that the events tell it in order, each thing once."""
    for number, event in enumerate(events):
        EVENT.validate_python(event)
        assert event["sequence_number"] == number
    assert [event["type"] for event in events[:2]] == ["response.created", "response.in_progress"]
    assert [event["type"] in ENDS for event in events] == [False] * (len(events) - 1) + [True]
    first, last = events[0]["response"], events[-1]["response"]
    typed(first)
    assert (first["status"], first["output"], first["usage"]) == ("in_progress", [], None)
    assert first["id"] == last["id"]
    items = items_told(events[2:-1])
    if events[-1]["type"] != "response.failed":
        assert items == last["output"]
    typed(last)
    return last


def items_told(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The items that these events begin, go on with and end."""
    items: list[dict[str, Any]] = []
    left = list(events)
    while left and left[0]["type"] == "response.output_item.added":
        begun = left.pop(0)
        assert (begun["output_index"], begun["item"]["status"]) == (len(items), "in_progress")
        within = []
        while left and left[0]["type"] != "response.output_item.done":
            within.append(left.pop(0))
        assert all((e["item_id"], e["output_index"]) == (begun["item"]["id"], len(items)) for e in within)
        if not left:  # it broke off
            return items
        item = left.pop(0)["item"]
        assert item["id"] == begun["item"]["id"]
        (check_message if item["type"] == "message" else check_call)(begun["item"], within, item)
        items.append(item)
    assert left == []
    return items


def check_message(begun: dict[str, Any], within: list[dict[str, Any]], item: dict[str, Any]) -> None:
    added, *deltas, text_done, part_done = within
    assert begun["content"] == []
    assert added["type"] == "response.content_part.added"
    assert (added["part"]["text"], added["part"]["logprobs"]) == ("", [])
    assert {delta["type"] for delta in deltas} <= {"response.output_text.delta"}
    (part,) = item["content"]
    assert "".join(delta["delta"] for delta in deltas) == text_done["text"] == part["text"]
    scores = [score for delta in deltas for score in delta["logprobs"]]
    assert scores == text_done["logprobs"] == part["logprobs"]
    assert (text_done["type"], part_done["type"]) == ("response.output_text.done", "response.content_part.done")
    assert part_done["part"] == part


def check_call(begun: dict[str, Any], within: list[dict[str, Any]], item: dict[str, Any]) -> None:
    *deltas, done = within
    assert (begun["call_id"], begun["name"], begun["arguments"]) == (item["call_id"], item["name"], "")
    assert {delta["type"] for delta in deltas} <= {"response.function_call_arguments.delta"}
    assert done["type"] == "response.function_call_arguments.done"
    assert "".join(delta["delta"] for delta in deltas) == done["arguments"] == item["arguments"]
