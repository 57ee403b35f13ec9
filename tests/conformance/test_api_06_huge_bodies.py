"""API-06: whatever a body of the largest size is full of, the loop takes its turns, and what costs much is refused."""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from baton.services.router.api.bodies import ChatBody
from baton.services.router.config import HttpConfig
from baton.services.router.errors import ApiError
from baton.services.router.http.body import decode_body
from baton.services.router.json_bounds import (
    MAX_DIGITS,
    MAX_NODES,
    MAX_VALUES,
    PIECE_BYTES,
    excess,
    string_end,
)
from tests.services.router.rig import Rig

MOST_BYTES = HttpConfig(("tiny",)).max_body_bytes
SOME_BYTES = 1 << 20  #: where the answer is as long as the body
CHAT = '{"model":"tiny","max_tokens":4,"messages":[{"role":"user","content":"x"}],'
ARGUMENTS = '{"model":"tiny","messages":[{"role":"assistant","tool_calls":[{"id":"a","type":"function","function":'

#: one message
CALLS = (
    '{"role":"assistant","tool_calls":['
    + ",".join(
        f'{{"id":"{index}","type":"function","function":{{"name":"f","arguments":"{{\\"a\\":[{"1," * 2000}1]}}"}}}}'
        for index in range(20)
    )
    + "]}"
)


class Huge(NamedTuple):
    """A body of one repeated piece."""

    path: str
    opening: str
    piece: str
    closing: str
    status: int
    code: str | None = None  #: of the error
    num_bytes: int = MOST_BYTES

    def body(self) -> bytes:
        count = (self.num_bytes - len(self.opening) - len(self.closing)) // len(self.piece)
        return ((self.opening + self.piece * count).rstrip(",") + self.closing).encode()


def completion(opening: str, piece: str, closing: str, status: int, code: str) -> Huge:
    return Huge("/v1/completions", '{"model":"tiny",' + opening, piece, closing + "}", status, code)


def chat(opening: str, piece: str, closing: str, status: int, code: str) -> Huge:
    return Huge("/v1/chat/completions", CHAT + opening, piece, closing + "}", status, code)


HUGE = {
    "text": completion('"prompt":"', "x", '"', 400, "context_length_exceeded"),
    "token ids": completion('"prompt":[', "1,", "]", 400, "too_many"),
    "longer token ids": completion('"prompt":[', f"{' ' * 40}1,", "]", 400, "context_length_exceeded"),
    "lists of ids": completion('"prompt":[', "[1],", "]", 400, "too_many"),
    "texts": completion('"prompt":[', '"",', "]", 400, "too_many"),
    "64 prompts": completion('"prompt":[', f'"{"x" * (MOST_BYTES // 64 - 40)}",', "]", 400, "context_length_exceeded"),
    "stop strings": completion('"prompt":"x","stop":[', '"a",', "]", 400, "too_many"),
    "biases": completion('"prompt":"x","logit_bias":{', '"7":1,', "}", 400, "too_many"),
    "stop token ids": completion('"prompt":"x","stop_token_ids":[', "1,", "]", 400, "too_many"),
    "messages": Huge("/v1/chat/completions", '{"model":"tiny","messages":[', '{"role":"user","content":""},', "]}", 400,
                     "too_many"),
    "deep JSON": chat('"user":', "[", "", 400, "too_many"),
    "wide JSON": chat('"unknown":[', "[],", "]", 400, "too_many"),
    "a wide schema": chat('"guided_json":{"enum":[', "{},", "]}", 400, "too_many"),
    "a long schema": chat('"guided_json":{"enum":[', f'"{"a" * 40}",', "]}", 422, "invalid_grammar"),
    "a schema as text": chat('"guided_json":"{\\"enum\\":[', "[],", ']}"', 422, "invalid_grammar"),
    "a format": chat('"response_format":{"type":"json_schema","json_schema":{"name":"a","schema":{"enum":[', "1,",
                     "]}}}", 400, "too_many"),
    "a regex": chat('"guided_regex":"', "(a?)", '"', 422, "invalid_grammar"),
    "a grammar": chat('"guided_grammar":"', "a\\n", '"', 422, "invalid_grammar"),
    "choices": chat('"guided_choice":[', '"a",', "]", 400, "too_many"),
    "tools": chat('"tools":[', '{"type":"function","function":{"name":"f"}},', "]", 400, "too_many"),
    "a tool": chat('"tools":[{"type":"function","function":{"name":"f","parameters":{"a":[', "1,", "]}}}]", 400,
                   "too_many"),
    "a wide call": Huge("/v1/chat/completions", ARGUMENTS + '{"name":"f","arguments":"{\\"a\\":[', "[],", '[]]}"}}]}]}',
                        400, "too_many"),
    "a long call": Huge("/v1/chat/completions", ARGUMENTS + '{"name":"f","arguments":"{\\"a\\":[', "1,", '1]}"}}]}]}',
                        400, "too_many"),
    "many calls": Huge("/v1/chat/completions", '{"model":"tiny","messages":[', CALLS + ",", "]}", 400, "too_many"),
    "long numbers": chat('"guided_json":{"enum":[', "9" * 4000 + ",", "]}", 400, "too_many"),
    "long numbers in texts": chat('"guided_json":{"enum":["', "9" * 4000 + '","', '"]}', 422, "invalid_grammar"),
    "input": Huge("/v1/responses", '{"model":"tiny","input":"', "x", '"}', 400, "context_length_exceeded"),
    "items": Huge("/v1/responses", '{"model":"tiny","input":[', '{"role":"user","content":""},', "]}", 400, "too_many"),
    "metadata": Huge("/v1/responses", '{"model":"tiny","input":"x","max_output_tokens":1,"metadata":{', '"k":"",', "}}",
                     400, "too_many"),
    "a text to tokenize": Huge("/tokenize", '{"prompt":"', "x ", '"}', 200, num_bytes=SOME_BYTES),
    "a chat to tokenize": Huge("/tokenize", '{"messages":[{"role":"user","content":"', "<|im_end|>", '"}]}', 200,
                               num_bytes=SOME_BYTES // 8),
    "tokens": Huge("/detokenize", '{"tokens":[', "1,", "]}", 400, "too_many"),
    "fewer tokens": Huge("/detokenize", '{"tokens":[', "120,", "]}", 200, num_bytes=SOME_BYTES - 4),
}  # fmt: skip


async def post(rig: Rig, path: str, body: bytes) -> tuple[int, Any]:
    """Sent piece by piece."""
    headers = {"Content-Type": "application/json"}
    async with rig.http.post(rig.url + path, data=io.BytesIO(body), headers=headers) as response:
        return response.status, await response.json()


@pytest.mark.parametrize("kind", HUGE)
async def test_api_06_a_stream_and_health_go_on_beside_the_largest_bodies(rig: Rig, kind: str) -> None:
    huge = HUGE[kind]
    body = huge.body()
    assert len(body) > 0.99 * huge.num_bytes
    rig.machine.is_held = True
    stream = asyncio.create_task(rig.events_of("/v1/completions", {"model": "tiny", "prompt": "abc", "max_tokens": 30}))
    await rig.machine.until(lambda: 1 in rig.machine.live)
    rig.machine.is_held = False
    asking = asyncio.create_task(post(rig, huge.path, body))
    num_probes = 0
    while not asking.done():
        async with rig.http.get(rig.url + "/health") as response:
            assert response.status == 200
        num_probes += 1
        if num_probes < 25:
            rig.machine.deliver(1, 0, 1)  # a token for each probe, so that both come while the body is worked on
    status, answer = await asking
    assert status == huge.status, answer
    if status != 200:
        assert answer["error"]["code"] == huge.code, answer
        assert len(str(answer)) < 2000
    assert num_probes > 2
    rig.machine.go_on(1)
    events = await stream
    text = "".join(choice["text"] for event in events[:-1] for choice in json.loads(event)["choices"])
    assert (text, events[-1]) == ("abc" * 10, "[DONE]")


#: more of each mark than there may be; within a string none counts
MARKS = '[{:,\\"' * (MAX_VALUES + 1) + "\\\\"


def nodes(count: int) -> bytes:
    """A valid chat of so many objects, lists and members."""
    inner = ",".join(["[]"] * (count - 9))
    message = f'{{"role":"user","content":"{MARKS}","annotations":[{inner}]}}'
    return f'{{"model":"tiny","messages":[{message}]}}'.encode()


def values(num_commas: int) -> bytes:
    """A valid chat with so many commas, though of few objects."""
    inner = ",".join(["1"] * (num_commas - 2))
    message = f'{{"role":"user","content":"{MARKS}","annotations":[{inner}]}}'
    return f'{{"model":"tiny","messages":[{message}]}}'.encode()


@pytest.mark.parametrize(
    ("body_of", "most", "what"),
    [(nodes, MAX_NODES, f"{MAX_NODES} objects, lists and members"), (values, MAX_VALUES - 1, f"{MAX_VALUES} values")],
)
def test_api_06_what_a_body_is_made_of_is_counted_outside_of_its_texts(
    body_of: Callable[[int], bytes], most: int, what: str
) -> None:
    assert len(decode_body(body_of(most), ChatBody).messages[0].annotations or ()) > 1000
    with pytest.raises(ApiError, match=f"the body has more than {what}") as raised:
        decode_body(body_of(most + 1), ChatBody)
    assert (raised.value.status, raised.value.code) == (400, "too_many")


@pytest.mark.parametrize("num_before", [0, MAX_NODES, PIECE_BYTES - 500, PIECE_BYTES - 1, 3 * PIECE_BYTES])
def test_api_06_a_number_has_so_many_digits_at_most(num_before: int) -> None:
    before, after = b"[" + b" " * num_before, b" " * MAX_NODES + b"]"
    number = b"9" * MAX_DIGITS
    assert excess(before + number + b"," + number + after) == ""
    assert excess(before + b'"' + 4 * number + b'"' + after) == ""
    assert excess(before + b"8" + number + after) == f"a number of more than {MAX_DIGITS} digits"


def test_api_06_several_texts_are_bounded_together() -> None:
    half = b"[" + b"1," * (MAX_VALUES // 2) + b"1]"
    assert excess(half) == ""
    assert excess(half, half) == f"more than {MAX_VALUES} values"


@pytest.mark.parametrize("inside", [b"", b"x" * 70_000, b'\\"', b"\\\\", b'\\"' * 5000, b"a\\\\" * 5000 + b'\\"'])
def test_api_06_a_text_ends_where_the_decoder_ends_it(inside: bytes) -> None:
    text = b'"' + inside + b'","'
    assert string_end(text, 1) == len(inside) + 2
    assert string_end(text[: len(inside) + 1], 1) >= len(inside) + 1  # it does not end


@pytest.mark.parametrize("odd", [b'""', b'"" ', b'"\\', b'\\"', b'"', b"\\", b'"\\\n'])
def test_api_06_and_sec_10_what_is_no_json_is_not_counted_to_its_end(odd: bytes) -> None:
    """The decoder refuses it at once."""
    assert excess(b'"' + b"," * MAX_VALUES + b'"' + odd * 100_000) == ""
