"""R4: the head of every generated answer says why its prompt was computed where it was."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from tests.services.router.rig import Rig

BODIES = {
    "/v1/completions": {"prompt": "hello", "max_tokens": 4},
    "/v1/chat/completions": {"messages": [{"role": "user", "content": "hello"}], "max_tokens": 4},
    "/v1/responses": {"input": "hello", "max_output_tokens": 16},
}


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(("path", "body"), BODIES.items())
async def test_r4_every_generated_answer_has_the_header(
    rig: Rig, caplog: pytest.LogCaptureFixture, path: str, body: dict[str, Any], stream: bool
) -> None:
    caplog.set_level(logging.INFO, "baton.router.access")
    rig.machine.placement = "cached"
    async with rig.http.post(rig.url + path, json=body | {"model": "tiny", "stream": stream}) as response:
        assert response.status == 200, await response.text()
        await response.read()
        assert response.headers["X-Baton-Placement"] == "cached"
    lines = [record.fields for record in caplog.records if record.name == "baton.router.access"]
    assert [line["placement"] for line in lines] == ["cached"]


async def test_r4_an_answer_whose_place_is_not_known_when_it_begins_has_none(rig: Rig) -> None:
    async with rig.http.post(rig.url + "/v1/completions", json=BODIES["/v1/completions"]) as response:
        await response.read()
        assert "X-Baton-Placement" not in response.headers
