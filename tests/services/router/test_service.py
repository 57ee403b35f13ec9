"""A router's start, in this process, with a scheduler that nobody runs."""

from __future__ import annotations

import io
from pathlib import Path

import aiohttp

from baton.core.ids import Role
from baton.services.router.http.routes import CACHED
from baton.services.router.service import Front
from baton.services.router.text.model_folder import RouterModel
from baton.services.runtime.flags import flags_layer, service_parser
from baton.services.runtime.lifecycle import Lifecycle
from baton.services.runtime.log import Log
from baton.services.runtime.process import read_record
from baton.services.runtime.settings import load_settings
from baton.services.transport.keys import make_keys


async def test_a_router_that_serves_says_who_makes_its_tokens_and_has_made_its_document(
    model: RouterModel, tmp_path: Path
) -> None:
    make_keys(tmp_path / "keys", ["router", "scheduler"])
    flags = f"--keys {tmp_path / 'keys'} --model {model.folder} --port 0 --run-folder {tmp_path}"
    options = service_parser(Role.ROUTER).parse_args(flags.split())
    settings = load_settings(Role.ROUTER, None, {}, flags_layer(Role.ROUTER, options))
    told = io.StringIO()
    front = Front(Lifecycle(Log("router", 1, told)), settings)
    await front.start()
    try:
        assert all(answer.is_made for answer in front.app[CACHED])
        port = read_record(tmp_path, "router").http_port
        async with aiohttp.ClientSession() as http, http.get(f"http://127.0.0.1:{port}/health") as answer:
            assert answer.status == 200
    finally:
        await front.stop()
    (line,) = [line for line in told.getvalue().splitlines() if "serving" in line]
    assert "tokenizer=fastokens" in line
