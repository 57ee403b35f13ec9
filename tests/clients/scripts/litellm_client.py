"""litellm against a server: `litellm_client.py URL MODEL` prints what it got as JSON."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable
from typing import Any

import litellm

from tests.clients.asked import MESSAGES, RESULT, TOOL, Point

SCHEMA = {"type": "json_schema", "json_schema": {"name": "Point", "schema": Point.model_json_schema(), "strict": True}}


def text_of(parts: list[Any]) -> str:
    return "".join(part.choices[0].delta.content or "" for part in parts if part.choices)


def chats(options: dict[str, Any]) -> dict[str, Any]:
    asked = {"messages": MESSAGES, "max_tokens": 60, **options}
    whole = litellm.completion(**asked)
    parts = list(litellm.completion(**asked, stream=True, stream_options={"include_usage": True}))
    return {
        "completion": whole.choices[0].message.content,
        "finish": whole.choices[0].finish_reason,
        "usage": [whole.usage.prompt_tokens, whole.usage.completion_tokens],
        "stream": text_of(parts),
        "streamed_usage": [parts[-1].usage.prompt_tokens, parts[-1].usage.completion_tokens],
        "stop": litellm.completion(**asked, stop=[" "]).choices[0].message.content,
        "n": [choice.message.content for choice in litellm.completion(**asked, n=2).choices],
        "scores": [
            score["token"]
            for score in litellm.completion(**asked, logprobs=True, top_logprobs=1).choices[0].logprobs["content"]
        ],
    }


async def chats_async(options: dict[str, Any]) -> dict[str, Any]:
    asked = {"messages": MESSAGES, "max_tokens": 60, **options}
    whole = await litellm.acompletion(**asked)
    parts = [part async for part in await litellm.acompletion(**asked, stream=True)]
    return {"acompletion": whole.choices[0].message.content, "astream": text_of(parts)}


def structured(options: dict[str, Any]) -> dict[str, Any]:
    found = {}
    for name, response_format in (("schema", SCHEMA), ("type", Point)):
        asked = {"messages": MESSAGES, "max_tokens": 600, "response_format": response_format, **options}
        found[name] = json.loads(litellm.completion(**asked).choices[0].message.content)
        found[f"{name}_stream"] = json.loads(text_of(list(litellm.completion(**asked, stream=True))))
    return found


def tools(options: dict[str, Any]) -> dict[str, Any]:
    asked = {"messages": MESSAGES, "tools": [TOOL], "parallel_tool_calls": False, "max_tokens": 600, **options}
    first = litellm.completion(**asked, tool_choice="required").choices[0]
    joined = litellm.stream_chunk_builder(list(litellm.completion(**asked, tool_choice="required", stream=True)))
    named = litellm.completion(**asked, tool_choice={"type": "function", "function": {"name": "weather"}})
    (call,) = first.message.tool_calls
    result = {"role": "tool", "tool_call_id": call.id, "content": RESULT}
    second = litellm.completion(**asked | {"messages": [*MESSAGES, first.message, result]})
    return {
        "finish": first.finish_reason,
        "call": call_of(first.message),
        "streamed_call": call_of(joined.choices[0].message),
        "named_call": call_of(named.choices[0].message),
        "after_result": second.choices[0].message.content,
    }


def call_of(message: Any) -> list[Any]:
    (call,) = message.tool_calls
    return [call.function.name, json.loads(call.function.arguments)]


def completions(options: dict[str, Any]) -> dict[str, Any]:
    asked = {"prompt": "how is it?", "max_tokens": 60, **options}
    parts = list(litellm.text_completion(**asked, stream=True))
    return {
        "text": litellm.text_completion(**asked).choices[0].text,
        "stream": "".join(part.choices[0].text or "" for part in parts if part.choices),
    }


def responses(options: dict[str, Any]) -> dict[str, Any]:
    asked = {"input": "how is it?", "max_output_tokens": 60, **options}
    parts = list(litellm.responses(**asked, stream=True))
    return {
        "text": litellm.responses(**asked).output[0].content[0].text,
        "stream": "".join(part.delta for part in parts if part.type == "response.output_text.delta"),
    }


def errors(options: dict[str, Any]) -> dict[str, Any]:
    asked = {"messages": MESSAGES, **options}
    return {
        "bad_request": raised(lambda: litellm.completion(**asked | {"temperature": 9.0})),
        "unknown_model": raised(lambda: litellm.completion(**asked | {"model": "openai/other"})),
        "embedding": raised(lambda: litellm.embedding(input=["x"], **options)),
    }


def raised(ask: Callable[[], Any]) -> list[Any]:
    try:
        ask()
    except Exception as error:
        return [type(error).__name__, getattr(error, "status_code", None), str(error)]
    return []


def main(url: str, name: str) -> dict[str, Any]:
    options = {"model": f"openai/{name}", "api_base": f"{url}/v1", "api_key": "none", "max_retries": 0, "timeout": 60}
    asked = options | {"temperature": 0}
    return {
        "chat": chats(asked) | asyncio.run(chats_async(asked)),
        "structured": structured(asked),
        "tools": tools(asked),
        "completions": completions(asked),
        "responses": responses(asked),
        "errors": errors(options),
    }


if __name__ == "__main__":
    print(json.dumps(main(*sys.argv[1:])))
