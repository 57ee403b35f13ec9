"""SEC-09: with keys every route is closed to who has none, but for the two that probes call."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from baton.services.router.http.auth import ApiKeys, NoApiKeys, read_api_keys
from baton.services.router.text.model_folder import RouterModel
from tests.services.router.rig import open_rig

PATHS = [
    "/v1/models", "/v1/completions", "/v1/chat/completions", "/metrics", "/nothing", "//v1/models", "/V1/models/",
    "/v1%2fmodels", "/v1/../v1/models", "/health/../v1/models", "/health/", "//health", "/", "/health%2f..%2fmetrics",
]  # fmt: skip
KEYS = ApiKeys(("first-key", "clé"))


async def status_of(port: int, method: str, path: str, authorization: bytes) -> int:
    """Sent as raw bytes, so that no client tidies the path."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    head = f"{method} {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 0\r\n".encode()
    writer.write(head + (b"Authorization: " + authorization + b"\r\n" if authorization else b"") + b"\r\n")
    status = int((await reader.read()).split()[1])
    writer.close()
    await writer.wait_closed()
    return status


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "DELETE", "OPTIONS"])
async def test_sec_09_no_path_and_no_method_is_open_without_a_valid_key(model: RouterModel, method: str) -> None:
    wrong = [b"", b"Bearer", b"Bearer ", b"Bearer first-key-", b"Basic first-key", b"first-key", b"Bearer \xff\xfe"]
    async with open_rig(model, KEYS, stop_grace_s=0.5) as rig:
        for path in PATHS:
            for authorization in wrong:
                assert await status_of(rig.port, method, path, authorization) == 401, (path, authorization)
        for path in ("/health", "/ready"):
            assert await status_of(rig.port, "GET", path, b"") == 200


async def test_sec_09_every_key_opens_what_is_there(model: RouterModel) -> None:
    async with open_rig(model, KEYS, stop_grace_s=0.5) as rig:
        for authorization in (b"Bearer first-key", b"bearer  first-key", "Bearer clé".encode()):
            assert await status_of(rig.port, "GET", "/v1/models", authorization) == 200
        assert await status_of(rig.port, "GET", "/nothing", b"Bearer first-key") == 404


def test_sec_09_a_file_without_keys_does_not_open_the_server(tmp_path: Path) -> None:
    path = tmp_path / "keys"
    path.write_text("\n  \n", encoding="utf-8")
    with pytest.raises(NoApiKeys):
        read_api_keys(path)
