"""langchain-openai against a server: `langchain_client.py URL MODEL` prints what it got as JSON."""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

from langchain_core.messages import AIMessageChunk, HumanMessage, ToolMessage
from langchain_openai import ChatOpenAI, OpenAI

from tests.clients.asked import RESULT, TOOL, Point

QUESTION = "how is it?"
OPTIONS: dict[str, Any] = {"api_key": "none", "max_retries": 0, "timeout": 60, "temperature": 0}


def chats(model: ChatOpenAI) -> dict[str, Any]:
    whole = model.invoke(QUESTION)
    parts = list(model.stream(QUESTION))
    joined = sum(parts[1:], parts[0])
    return {
        "invoke": whole.text,
        "stream": "".join(part.text for part in parts),
        "batch": [answer.text for answer in model.batch([QUESTION] * 3)],
        "stop": model.invoke(QUESTION, stop=[" "]).text,
        "usage": whole.usage_metadata,
        "streamed_usage": joined.usage_metadata,
        "finish": whole.response_metadata["finish_reason"],
    }


async def chats_async(model: ChatOpenAI) -> dict[str, Any]:
    return {
        "ainvoke": (await model.ainvoke(QUESTION)).text,
        "astream": "".join([part.text async for part in model.astream(QUESTION)]),
        "abatch": [answer.text for answer in await model.abatch([QUESTION] * 2)],
    }


def structured(model: ChatOpenAI) -> dict[str, Any]:
    found = {}
    for method in ("json_schema", "function_calling"):
        typed = model.with_structured_output(Point, method=method)
        found[method] = typed.invoke(QUESTION).model_dump()
        found[f"{method}_dict"] = model.with_structured_output(
            Point.model_json_schema(), method=method, strict=True
        ).invoke(QUESTION)
        found[f"{method}_stream"] = list(typed.stream(QUESTION))[-1].model_dump()
    return found


def tools(model: ChatOpenAI) -> dict[str, Any]:
    bound = model.bind_tools([TOOL], parallel_tool_calls=False, tool_choice="required")
    first = bound.invoke(QUESTION)
    chunks: list[AIMessageChunk] = list(bound.stream(QUESTION))
    joined = sum(chunks[1:], chunks[0])
    (call,) = first.tool_calls
    result = ToolMessage(RESULT, tool_call_id=call["id"])
    second = model.bind_tools([TOOL]).invoke([HumanMessage(QUESTION), first, result])
    named = model.bind_tools([TOOL], parallel_tool_calls=False, tool_choice="weather").invoke(QUESTION)
    return {
        "call": [call["name"], call["args"]],
        "streamed_call": [[call["name"], call["args"]] for call in joined.tool_calls],
        "named_call": [[call["name"], call["args"]] for call in named.tool_calls],
        "after_result": second.text,
    }


def scores(model: ChatOpenAI) -> list[str]:
    answer = model.bind(logprobs=True, top_logprobs=2).invoke(QUESTION)
    return [score["token"] for score in answer.response_metadata["logprobs"]["content"]]


def completions(url: str, name: str) -> dict[str, Any]:
    model = OpenAI(base_url=f"{url}/v1", model=name, max_tokens=60, seed=5, **OPTIONS)
    return {
        "invoke": model.invoke(QUESTION),
        "stream": "".join(model.stream(QUESTION)),
        "batch": model.batch([QUESTION, QUESTION]),
    }


def responses_of(model: ChatOpenAI) -> dict[str, Any]:
    whole = model.invoke(QUESTION)
    parts = list(model.stream(QUESTION))
    joined = sum(parts[1:], parts[0])
    return {
        "invoke": whole.text,
        "stream": "".join(part.text for part in parts),
        "usage": whole.usage_metadata,
        "streamed_usage": joined.usage_metadata,
        "status": whole.response_metadata["status"],
        "structured": structured(model),
        "tools": tools(model),
    }


def main(url: str, name: str) -> dict[str, Any]:
    options = OPTIONS | {"base_url": f"{url}/v1", "model": name, "max_tokens": 600, "stream_usage": True}
    chat = ChatOpenAI(**options, seed=5)
    return {
        "chat": chats(chat) | asyncio.run(chats_async(ChatOpenAI(**options, seed=5))),
        "structured": structured(chat),
        "tools": tools(chat),
        "scores": scores(chat),
        "completions": completions(url, name),
        "responses": responses_of(ChatOpenAI(**options, use_responses_api=True)),
    }


if __name__ == "__main__":
    print(json.dumps(main(*sys.argv[1:])))
