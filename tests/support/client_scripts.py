"""Scripts that run in the environment of other clients and print one JSON value. They reach this machine alone."""

from __future__ import annotations

import asyncio
import json
import os
from typing import Any

import pytest

from tests.accept.commands import ROOT
from tests.support.environment import CLIENTS

LIMIT_S = 240.0  #: bounds a script that hangs; nothing is measured against it
NOWHERE = "http://127.0.0.1:9"  #: nobody listens there
VARIABLES = {
    "PYTHONPATH": str(ROOT),
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "LANGSMITH_TRACING": "false",
    "HTTP_PROXY": NOWHERE,
    "HTTPS_PROXY": NOWHERE,
    "ALL_PROXY": NOWHERE,
    "NO_PROXY": "127.0.0.1",
}
needs_clients = pytest.mark.skipif(
    not CLIENTS.is_installed,
    reason="other clients have an environment of their own, which `make accept ACCEPT_ARGS='--only clients'` makes",
)


async def run_script(name: str, url: str, model: str) -> Any:
    """The last line that tests/clients/scripts/`name` prints; AssertionError with its errors if it fails."""
    process = await asyncio.create_subprocess_exec(
        CLIENTS.program("python"),
        str(ROOT / "tests" / "clients" / "scripts" / name),
        url,
        model,
        env={**_without_proxies(), **VARIABLES},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        async with asyncio.timeout(LIMIT_S):
            output, errors = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert process.returncode == 0, errors.decode()[-6000:]
    return json.loads(output.splitlines()[-1])  # a library may have printed advice before


def _without_proxies() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}
