"""langchain-openai and litellm, each in one process that asks everything: what a scripted model says arrives."""

from __future__ import annotations

from typing import Any

from tests.clients.asked import POINT, TEXT, Point
from tests.clients.scripted import AFTER_RESULT, converse
from tests.services.router.rig import Rig
from tests.support.client_scripts import needs_clients, run_script

pytestmark = needs_clients

POINT_FIELDS = Point.model_validate_json(POINT).model_dump()
WEATHER: Any = ["weather", {"town": "Köln 😀"}]
NUM_OUTPUT_TOKENS = len(TEXT.encode()) + 1


def check_scores(tokens: list[str]) -> None:
    """Bytes of characters that no token holds alone have names of their own."""
    assert tokens[-1] == "<|eos|>"
    text = b"".join(
        bytes([int(token.removeprefix("bytes:\\x"), 16)]) if token.startswith("bytes:") else token.encode()
        for token in tokens[:-1]
    )
    assert text.decode() == TEXT


def check_langchain_usage(found: dict[str, Any]) -> None:
    usage = found["usage"]
    assert found["streamed_usage"] == usage
    assert usage["output_tokens"] == NUM_OUTPUT_TOKENS
    assert usage["total_tokens"] == usage["input_tokens"] + usage["output_tokens"]
    assert usage["input_token_details"]["cache_read"] == 0


def check_langchain_structured(found: dict[str, Any]) -> None:
    assert len(found) == 6
    assert all(value == POINT_FIELDS for value in found.values()), found


def check_langchain_tools(found: dict[str, Any]) -> None:
    calls = {"call": WEATHER, "streamed_call": [WEATHER], "named_call": [WEATHER]}
    assert found == calls | {"after_result": AFTER_RESULT}


async def test_langchain_gets_what_the_model_says(rig: Rig) -> None:
    rig.machine.script = converse
    found = await run_script("langchain_client.py", rig.url, "tiny")
    chat, responses = found["chat"], found["responses"]
    for name in ("invoke", "stream", "ainvoke", "astream"):
        assert chat[name] == TEXT
    assert (chat["batch"], chat["abatch"]) == ([TEXT] * 3, [TEXT] * 2)
    assert (chat["stop"], chat["finish"]) == (TEXT.split()[0], "stop")
    assert (responses["invoke"], responses["stream"], responses["status"]) == (TEXT, TEXT, "completed")
    for part in (chat, responses):
        check_langchain_usage(part)
    for part in (found, responses):
        check_langchain_structured(part["structured"])
        check_langchain_tools(part["tools"])
    assert found["completions"] == {"invoke": TEXT, "stream": TEXT, "batch": [TEXT] * 2}
    check_scores(found["scores"])


async def test_litellm_gets_what_the_model_says(rig: Rig) -> None:
    rig.machine.script = converse
    found = await run_script("litellm_client.py", rig.url, "tiny")
    chat, usage = found["chat"], found["chat"]["usage"]
    for name in ("completion", "stream", "acompletion", "astream"):
        assert chat[name] == TEXT
    assert (chat["stop"], chat["n"], chat["finish"]) == (TEXT.split()[0], [TEXT] * 2, "stop")
    assert usage[1] == NUM_OUTPUT_TOKENS
    assert chat["streamed_usage"] == usage
    check_scores(chat["scores"])
    assert set(found["structured"]) == {"schema", "schema_stream", "type", "type_stream"}
    assert all(value == POINT_FIELDS for value in found["structured"].values())
    tools = found["tools"]
    assert [tools[name] for name in ("call", "streamed_call", "named_call")] == [WEATHER] * 3
    assert (tools["finish"], tools["after_result"]) == ("tool_calls", AFTER_RESULT)
    assert found["completions"] == found["responses"] == {"text": TEXT, "stream": TEXT}
    for name, error, status, text in (
        ("bad_request", "BadRequestError", 400, "temperature is 9.0"),
        ("unknown_model", "NotFoundError", 404, "the model 'other' is not served here"),
        ("embedding", "NotFoundError", 404, "there is no /v1/embeddings here"),
    ):
        assert found["errors"][name][:2] == [error, status]
        assert text in found["errors"][name][2]
