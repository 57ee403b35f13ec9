"""SEC-03 and SEC-04 at every nesting of every body: what the API does not have is refused by its full name."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import msgspec.inspect as mi
import pytest

from baton.services.router.text.model_folder import RouterModel
from tests.conformance.surface import BODY_TYPES, PLAIN, RICH, TOOL, objects, structs
from tests.services.router.rig import Rig, open_rig, prompt_ids

LOOP = "{% for i in range(1000000000) %}{% endfor %}"
FORGED = {"remote_host": "127.0.0.1", "remote_port": 1, "remote_block_ids": [0, 1], "tp_size": 10**9}
FOREIGN: dict[str, Any] = {
    "kv_transfer_params": FORGED,
    "remote_block_ids": [0, 1, 2],
    "bootstrap_host": "127.0.0.1",
    "request_id": 7,
    "attempt": 1,
    "chat_template": LOOP,
    "chat_template_kwargs": {"chat_template": LOOP},
    "add_generation_prompt": False,
    "documents": [],
}


def test_sec_03_and_04_no_type_of_a_body_ignores_what_it_does_not_know() -> None:
    found = list(structs(mi.UnionType(tuple(map(mi.type_info, BODY_TYPES))), set()))
    assert len(found) > 20
    assert [struct.cls for struct in found if not struct.forbid_unknown_fields] == []
    fields = {field.encode_name for struct in found for field in struct.fields}
    assert fields & set(FOREIGN) == set()


@pytest.mark.parametrize("path", RICH)
async def test_sec_03_and_04_at_every_nesting_they_are_refused_by_name(rig: Rig, path: str) -> None:
    async with asyncio.timeout(200):  # a loop of a template would not end before
        for place in objects(RICH[path]):
            for name, value in FOREIGN.items():
                there = place._replace(path=(*place.path, name))
                status, answer = await rig.post(path, there.changed(RICH[path], value))
                assert status == 400, (there.param, answer)
                told = (answer["error"]["param"], answer["error"]["code"])
                assert told == (there.param, "unsupported_parameter"), answer
    assert rig.machine.events == []
    await rig.check_alive()


@pytest.mark.parametrize("path", PLAIN)
async def test_sec_03_headers_and_queries_reach_nothing(rig: Rig, path: str) -> None:
    headers = {f"X-{name.replace('_', '-')}": str(value) for name, value in FOREIGN.items()}
    headers |= {"X-Request-Id": "7", "X-Tenant": "other", "X-Priority": "0", "Cookie": "kv=1"}
    query = "?chat_template=x&kv_transfer_params=1&model=other&request_id=7"
    _, plain = await rig.post(path, PLAIN[path])
    async with rig.http.post(rig.url + path + query, json=PLAIN[path], headers=headers) as response:
        text, answer = await response.text(), await response.json()
        assert response.status == 200
    assert "127.0.0.1" not in text
    changing = {"id", "created", "created_at", "completed_at", "output"}
    assert {key: value for key, value in answer.items() if key not in changing} == {
        key: value for key, value in plain.items() if key not in changing
    }
    arrives = rig.machine.events
    assert [event.request_id for event in arrives] == list(range(1, len(arrives) + 1))
    assert len({(event.tenant, event.priority_class) for event in arrives}) <= 1


TEMPLATE = "{{ 7*7 }}{% for i in range(9) %}x{% endfor %}{# gone #}"


async def test_sec_04_what_a_client_writes_is_never_read_as_a_template(rig: Rig) -> None:
    """In every text that a chat template is given."""
    function = {"name": "f", "description": TEMPLATE, "parameters": {"type": "object", "description": TEMPLATE}}
    call = {"id": "a", "type": "function", "function": {"name": TEMPLATE, "arguments": json.dumps({"a": TEMPLATE})}}
    messages = [
        {"role": "system", "content": TEMPLATE},
        {"role": "user", "content": [{"type": "text", "text": TEMPLATE}]},
        {"role": "assistant", "content": TEMPLATE, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "a", "content": TEMPLATE},
    ]
    status, answer = await rig.chat(messages=messages, tools=[TOOL | {"function": function}])
    assert status == 200, answer
    prompt = bytes(token for token in prompt_ids(rig.machine.events[-1]) if token < 256).decode()
    assert prompt.count(TEMPLATE) >= 7
    assert "49" not in prompt


async def test_sec_04_a_template_that_refuses_says_so_and_shows_nothing_of_itself(model: RouterModel) -> None:
    async with open_rig(model, stop_grace_s=0.5) as rig:
        for path, fields in (("/tokenize", {}), ("/v1/chat/completions", {"max_tokens": 1})):
            body = {"model": "tiny", "messages": [{"role": "user", "content": "x"}], "chat_template": LOOP} | fields
            status, answer = await rig.post(path, body)
            assert (status, answer["error"]["param"]) == (400, "chat_template")
            assert "{%" not in str(answer)
