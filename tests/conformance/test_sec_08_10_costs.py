"""SEC-08 and SEC-10: what one request may cost in memory and in work, wherever its parts multiply."""

from __future__ import annotations

import asyncio
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from baton.services.grammar.errors import BadGrammar
from baton.services.router.text.model_folder import RouterModel
from baton.services.router.text.stop_strings import StopScanner, failure_table
from baton.services.router.text.tokenize import MAX_SHOWN_CHARS
from baton.services.router.tools.bare_arguments import python_arguments, xml_arguments
from baton.services.router.tools.schema_types import property_types
from tests.conformance.surface import PLAIN
from tests.conformance.test_api_06_huge_bodies import HUGE, MOST_BYTES, post
from tests.services.router.rig import Rig, open_rig
from tests.services.router.tools import test_linear_work as counted

REFUSED = ("lists of ids", "texts", "items", "a wide schema", "a long schema", "a regex", "a tool")
MAX_GROWTH_BYTES = 32 * MOST_BYTES  #: of client and server together: a text of one letter takes 50 bytes and its place


def resident_peak_bytes() -> int:
    """The most that this process has had in RAM since the peak was reset."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) << 10
    raise AssertionError("no peak is told")


async def test_sec_08_what_is_refused_takes_memory_by_its_size_alone(rig: Rig) -> None:
    await rig.check_alive()
    for kind in REFUSED:
        body = HUGE[kind].body()
        Path("/proc/self/clear_refs").write_text("5")
        before = resident_peak_bytes()
        status, _ = await post(rig, HUGE[kind].path, body)
        assert status == HUGE[kind].status
        assert resident_peak_bytes() - before < MAX_GROWTH_BYTES, kind


@pytest.mark.parametrize("path", PLAIN)
async def test_sec_08_every_endpoint_that_takes_a_body_counts_among_the_open_requests(
    model: RouterModel, path: str
) -> None:
    async with open_rig(model, stop_grace_s=0.5, max_open_requests=1) as rig:
        rig.machine.is_held = True
        held = asyncio.create_task(rig.complete())
        await rig.machine.until(lambda: 1 in rig.machine.live)
        async with rig.http.post(rig.url + path, json=PLAIN[path]) as response:
            assert (response.status, (await response.json())["error"]["code"]) == (429, "queue_full")
            assert int(response.headers["Retry-After"]) >= 1
        rig.machine.is_held = False
        rig.machine.go_on(1)
        assert (await held)[0] == 200
        assert (await rig.post(path, PLAIN[path]))[0] == 200


async def test_sec_08_one_bound_of_bytes_holds_for_all_endpoints_together(model: RouterModel) -> None:
    async with open_rig(model, stop_grace_s=0.5, max_intake_bytes=10_000) as rig:
        sent, slow = asyncio.Event(), asyncio.Event()

        async def body() -> Any:
            yield b'{"model":"tiny","prompt":"' + b"x" * 8_200
            sent.set()
            await slow.wait()
            yield b'"}'

        headers = {"Content-Type": "application/json"}
        first = asyncio.create_task(rig.http.post(rig.url + "/tokenize", data=body(), headers=headers))
        async with asyncio.timeout(200):
            await sent.wait()
            await rig.check_alive()  # what was sent before this is read before it
        status, answer = await rig.complete(prompt="x" * 2_000)
        assert (status, answer["error"]["code"]) == (429, "queue_full")
        slow.set()
        async with await first as response:
            assert response.status == 200
        assert (await rig.complete(prompt="x" * 2000))[0] == 200


async def test_sec_08_the_prompts_that_all_answers_show_are_bounded(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    assert rig.front.config.max_body_bytes >= MAX_SHOWN_CHARS
    monkeypatch.setattr("baton.services.router.text.tokenize.MAX_SHOWN_CHARS", 60)
    for prompt, n in (("x" * 60, 1), (["x" * 10, "y" * 10], 3), ([[120] * 30], 2)):
        assert (await rig.complete(prompt=prompt, n=n, echo=True))[0] == 200
        status, answer = await rig.complete(prompt=prompt, n=n + 1, echo=True)
        assert (status, answer["error"]["param"], answer["error"]["code"]) == (400, "prompt", "too_many")
        assert (await rig.complete(prompt=prompt, n=n + 1))[0] == 200


def wide(num: int, schema: dict[str, Any]) -> dict[str, Any]:
    """So many parameters, each only a reference to the same schema."""
    return {"properties": {f"p{index}": {"$ref": "#/x"} for index in range(num)}, "x": schema}


#: `size` is of a part that all of `num` parameters lead to
SHARED: dict[str, Callable[[int], dict[str, Any]]] = {
    "a long reference": lambda size: {"$ref": "#" + "/a" * size},
    "many types": lambda size: {"type": ["string", *["null"] * size]},
    "many unknown types": lambda size: {"type": [f"t{index}" for index in range(size)]},
    "many values": lambda size: {"enum": list(range(size))},
    "many alternatives": lambda size: {"anyOf": [{"$ref": "#" + "/b" * size}] * 20},
}


@pytest.mark.parametrize("kind", SHARED)
def test_sec_10_what_many_parameters_refer_to_is_read_once(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Work is counted in lines of the package: a part that is ten times larger costs its own size more, no product."""

    def lines(num: int, size: int) -> int:
        schema = wide(num, SHARED[kind](size))
        return counted.num_lines(lambda: property_types(schema))

    num, size = 300, 1000
    few = lines(num, size // 10)
    assert lines(num, size) - few <= 25 * size
    assert lines(2 * num, size) <= 2.1 * lines(num, size)


@pytest.mark.parametrize("arguments", [xml_arguments, python_arguments])
def test_sec_08_definitions_are_not_written_out_without_end(arguments: Callable[..., list[str]]) -> None:
    properties = {f"p{index}": {"type": "integer"} for index in range(1000)}
    small = {"properties": properties, "$defs": {"a": {"description": "x" * 100}}}
    assert len("\n".join(arguments("a", small))) < 1 << 20
    with pytest.raises(BadGrammar, match="too many parameters"):
        arguments("a", small | {"$defs": {"a": {"description": "x" * 10_000}}})


@pytest.mark.parametrize("required", [[{}], [[]], [1], [None], [True], {"a": 1}, "a"])
@pytest.mark.parametrize("arguments", [xml_arguments, python_arguments])
def test_sec_10_required_parameters_that_are_no_names_harm_nobody(
    arguments: Callable[..., list[str]], required: Any
) -> None:
    try:
        assert arguments("a", {"properties": {"a": {}}, "required": required})
    except BadGrammar:
        assert not isinstance(required, list)


def test_sec_10_stop_strings_cost_each_character_once_and_their_own_length() -> None:
    """Counted in comparisons: of the most and longest strings, in texts that almost match them all the time."""

    class Counting(str):
        num_compared = 0

        def __getitem__(self, index: Any) -> str:
            Counting.num_compared += 1
            return str.__getitem__(self, index)

    stops = tuple(Counting("a" * length + "b") for length in (255, 254, 128, 1))
    tables = [failure_table(stop) for stop in stops]
    assert Counting.num_compared <= 6 * sum(map(len, stops))
    assert [table[-1] for table in tables] == [0] * 4
    Counting.num_compared = 0
    scanner = StopScanner(stops[:3])
    text = ("a" * 100 + "c") * 50
    assert scanner.push(text) is None
    assert Counting.num_compared <= 4 * 3 * len(text)


async def test_sec_10_ten_thousand_stop_strings_are_refused_before_any_is_read(rig: Rig) -> None:
    for fields in ({"stop": ["a"] * 10_000}, {"stop": ["a" * 257]}, {"stop": ["b"] * 5}):
        for path in ("/v1/completions", "/v1/chat/completions"):
            status, answer = await rig.post(path, PLAIN[path] | fields)
            assert (status, answer["error"]["param"]) == (400, "stop")
    assert rig.machine.events == []


async def test_sec_08_a_body_over_the_limit_is_a_413_on_every_endpoint(model: RouterModel) -> None:
    async with open_rig(model, stop_grace_s=0.5, max_body_bytes=50_000) as rig:
        for path in PLAIN:
            headers = {"Content-Type": "application/json"}
            data = io.BytesIO(b"{" + b" " * 60_000 + b"}")
            async with rig.http.post(rig.url + path, data=data, headers=headers) as response:
                assert (response.status, (await response.json())["error"]["code"]) == (413, "body_too_large")
        await rig.check_alive()
