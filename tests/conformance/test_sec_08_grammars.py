"""SEC-08 and SEC-10: grammars that strangers send. Their work is bounded, done elsewhere, and delays nobody else."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from baton.services.grammar.checker import Checker
from baton.services.router.text.model_folder import RouterModel
from tests.services.router.rig import Rig, checker_of, open_rig

MANY = 16


PATTERNS = {"allOf": [{"type": "string", "pattern": f".*{letter}.*"} for letter in "abcdefghijklmnopqrstuvwxyz"]}
PRODUCTS = {
    "allOf": [
        {"anyOf": [{"properties": {f"p{i}{j}": {"const": j}}, "required": [f"p{i}{j}"]} for j in range(4)]}
        for i in range(10)
    ]
}
DOUBLING = "start: r0\n" + "\n".join(f"r{i}: r{i + 1} r{i + 1}" for i in range(1000)) + '\nr1000: "a"'


def hostile(number: int) -> dict[str, Any]:
    """Grammars that take the checker as long as it lets them, each another one."""
    return (
        {"guided_regex": f"((a{{1,{100 + number}}}){{1,100}}){{1,100}}"},
        {"guided_json": PATTERNS | {"description": str(number)}},
        {"guided_grammar": f"{DOUBLING} {number * 'a'!r}".replace("'", '"')},
        {"response_format": {"type": "json_schema", "json_schema": {"name": "a", "schema": PRODUCTS | deep(number)}}},
    )[number % 4]


def deep(depth: int) -> dict[str, Any]:
    """What makes a schema another one, as nothing refers to it."""
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(depth):
        schema = {"type": "object", "properties": {"a": schema}, "required": ["a"]}
    return {"$defs": {"deep": schema}}


async def test_sec_08_a_flood_of_hostile_grammars_delays_no_other_request(rig: Rig) -> None:
    checker: Checker = checker_of(rig.front.model.folder)
    before = checker.num_checked
    flood = [asyncio.create_task(rig.complete(**hostile(number))) for number in range(MANY)]
    while checker.num_checked == before:
        await asyncio.sleep(0)
    for _ in range(3):
        await rig.check_alive()
    assert not all(task.done() for task in flood)  # ordinary requests were answered before the flood was
    for status, answer in await asyncio.gather(*flood):
        assert (status, answer["error"]["code"]) == (422, "invalid_grammar"), answer
    await rig.check_alive()


async def test_sec_08_more_grammars_than_may_wait_are_told_to_come_back_and_the_others_are_answered(
    model: RouterModel,
) -> None:
    limit = 4
    async with open_rig(model, stop_grace_s=0.5, max_waiting_grammars=limit) as rig:
        asked = [rig.complete(**hostile(100 + number)) for number in range(10 * limit)]
        answers = await asyncio.gather(*asked)
        refused = [answer["error"]["code"] for status, answer in answers if status == 429]
        assert set(refused) == {"queue_full"}
        assert len(answers) - len(refused) >= limit
        assert {status for status, _ in answers} == {422, 429}
        await rig.check_alive()


@pytest.mark.parametrize("path", ["/v1/completions", "/v1/chat/completions", "/v1/responses"])
async def test_sec_10_what_is_hostile_is_hostile_on_every_endpoint(rig: Rig, path: str) -> None:
    number = {"type": "integer", "multipleOf": 999_983}
    schema = {"type": "object", "properties": {"a": number}, "required": ["a"]}
    asked: dict[str, Any] = {
        "/v1/completions": {"prompt": "x", "max_tokens": 4, "guided_json": schema},
        "/v1/chat/completions": {
            "messages": [{"role": "user", "content": "x"}],
            "tools": [{"type": "function", "function": {"name": "f", "parameters": schema}}],
            "tool_choice": "required",
        },
        "/v1/responses": {
            "input": "x",
            "text": {"format": {"type": "json_schema", "name": "a", "schema": schema}},
        },
    }[path]
    status, answer = await rig.post(path, {"model": "tiny"} | asked)
    assert (status, answer["error"]["code"]) == (422, "invalid_grammar"), answer
    assert rig.machine.events == []
    await rig.check_alive()
