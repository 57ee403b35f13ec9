"""langchain-openai and litellm against real processes: what is demanded holds, and all ways give the same."""

from __future__ import annotations

from typing import Any

import jsonschema

from tests.clients.asked import FUNCTION, Point
from tests.parity.live import LiveStack
from tests.support.client_scripts import needs_clients, run_script

pytestmark = needs_clients


def check_calls(calls: list[Any]) -> None:
    for name, arguments in calls:
        assert name == "weather"
        jsonschema.validate(arguments, FUNCTION["parameters"])
    assert all(call == calls[0] for call in calls)


def check_structured(found: dict[str, Any]) -> None:
    for value in found.values():
        Point.model_validate(value)


async def test_langchain_gets_what_it_demands(live: LiveStack) -> None:
    found = await run_script("langchain_client.py", live.stack.url, live.names.model)
    chat, responses, completions = found["chat"], found["responses"], found["completions"]
    assert {chat[name] for name in ("stream", "ainvoke", "astream")} == {chat["invoke"]} != {""}
    assert {*chat["batch"], *chat["abatch"]} == {chat["invoke"]}
    assert {completions["stream"], *completions["batch"]} == {completions["invoke"]} != {""}
    assert responses["stream"] == responses["invoke"] == chat["invoke"]
    for part in (found, responses):
        check_structured(part["structured"])
        tools = part["tools"]
        check_calls([tools["call"], *tools["streamed_call"], *tools["named_call"]])
    for part in (chat, responses):
        assert part["usage"]["output_tokens"] == part["streamed_usage"]["output_tokens"] > 0


async def test_litellm_gets_what_it_demands(live: LiveStack) -> None:
    found = await run_script("litellm_client.py", live.stack.url, live.names.model)
    chat = found["chat"]
    assert {chat[name] for name in ("stream", "acompletion", "astream")} == {chat["completion"]} != {""}
    assert chat["streamed_usage"] == chat["usage"]
    check_structured(found["structured"])
    check_calls([found["tools"][name] for name in ("call", "streamed_call", "named_call")])
    for name in ("completions", "responses"):
        assert found[name]["stream"] == found[name]["text"] != ""
