"""SEC-09: with keys every route is closed to who has none, but for two probes and the built-in page's files."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

from baton.services.router.http.app import create_app
from baton.services.router.http.auth import ApiKeys
from baton.services.router.http.key_file import NoApiKeys, parse_keys, read_key_file
from baton.services.router.http.pages import Providers
from baton.services.router.text.model_folder import RouterModel
from tests.services.router.rig import Rig, open_rig

KEY = "first-key-0123456789"
KEYS = ApiKeys(parse_keys(f"{KEY}\nclé-0123456789-0123\n", "test", 9), bytes(16))
PATHS = [
    "/nothing", "//v1/models", "/V1/models/", "/v1%2fmodels", "/v1/../v1/models", "/health/../v1/models", "/health/",
    "//health", "/health%2f..%2fmetrics", "/health;/../v1/models", "/health/v1/models", "/HEALTH", "/ready/", "//",
    "/page/", "/page", "/page/page.js/", "/page/../v1/models", "/page%2fpage.js",
]  # fmt: skip
METHODS = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"]
OPEN = ("/health", "/ready", "/", "/page/page.js", "/page/page.css", "/page/icon.svg")
WRONG = [
    b"", b"Bearer", b"Bearer ", b"Bearer first-key-012345678", b"Bearer first-key-01234567890", b"Bearer \xff\xfe",
    b"Bearer FIRST-KEY-0123456789", b"Bearer first-key-0123456789,x", b"Basic first-key-0123456789",
    b"first-key-0123456789",
]  # fmt: skip
PAGE = "https://app.example"
CORS = {"off": (), "on": (PAGE,), "any": ("*",)}
ORIGIN = f"Origin: {PAGE}".encode()
PREFLIGHT = (ORIGIN, b"Access-Control-Request-Method: POST")


async def status_of(port: int, method: str, path: str, authorization: bytes, *headers: bytes) -> int:
    """Sent as raw bytes, so that no client tidies the path."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    head = f"{method} {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 0\r\n".encode()
    lines = [*headers, *([b"Authorization: " + authorization] if authorization else [])]
    writer.write(head + b"".join(line + b"\r\n" for line in lines) + b"\r\n")
    status = int((await reader.read()).split()[1])
    writer.close()
    await writer.wait_closed()
    return status


def routes(rig: Rig) -> list[str]:
    """A path of each route that the application has."""

    async def health() -> bool:
        return True

    app = create_app(rig.front, rig.front.config, Providers(health, str, bytes), KEYS)
    return [resource.canonical.replace("{name}", "tiny") for resource in app.router.resources()]


def disguises(path: str) -> Iterator[str]:
    """Of a closed route: ways to write it that a check of the text could miss."""
    first, rest = path[1], path[2:]
    yield path
    yield f"/{path}"
    yield f"{path}/"
    yield path.upper()
    yield "/" + path[1:].replace("/", "%2f")
    yield f"/%2f{path[1:]}"
    yield f"/%{ord(first):02x}{rest}"
    yield f"/health/..{path}"
    yield f"http://x{path}"
    yield f"{path}?api_key={KEY}&key={KEY}&access_token={KEY}&authorization=Bearer%20{KEY}"
    yield f"{path}?/health"
    yield f"{path}#/health"


@pytest.mark.parametrize("cors", CORS)
@pytest.mark.parametrize("method", METHODS)
async def test_sec_09_no_route_is_open_without_a_valid_key_however_it_is_written(
    model: RouterModel, method: str, cors: str
) -> None:
    async with open_rig(model, KEYS, stop_grace_s=0.5, cors_allow_origins=CORS[cors]) as rig:
        closed = [path for path in routes(rig) if path not in OPEN]
        assert {"/v1/completions", "/v1/chat/completions", "/v1/models", "/metrics"} <= set(closed)
        for path in [*PATHS, *itertools.chain.from_iterable(map(disguises, closed))]:
            for authorization in (b"", b"Bearer second-key-0123456789"):
                assert await status_of(rig.port, method, path, authorization, ORIGIN) == 401, (path, authorization)
        for path in OPEN:
            expected = 200 if method in ("GET", "HEAD") else 401
            assert await status_of(rig.port, method, path, b"", ORIGIN) == expected, path
        assert rig.machine.events == []


@pytest.mark.parametrize("method", METHODS)
async def test_sec_09_nothing_that_is_not_a_key_opens_a_route(model: RouterModel, method: str) -> None:
    async with open_rig(model, KEYS, stop_grace_s=0.5) as rig:
        for path in [path for path in routes(rig) if path not in OPEN]:
            for authorization in WRONG:
                assert await status_of(rig.port, method, path, authorization) == 401, (path, authorization)


async def test_sec_09_only_a_preflight_of_an_allowed_page_is_answered_without_a_key(model: RouterModel) -> None:
    async with open_rig(model, KEYS, stop_grace_s=0.5, cors_allow_origins=(PAGE,)) as rig:
        other = (b"Origin: https://other.example", PREFLIGHT[1])
        for path in routes(rig):
            assert await status_of(rig.port, "OPTIONS", path, b"", *PREFLIGHT) == 204
            for headers in ((), PREFLIGHT[:1], PREFLIGHT[1:], other):
                assert await status_of(rig.port, "OPTIONS", path, b"", *headers) == 401, (path, headers)
            if path not in OPEN:
                for method in ("GET", "POST"):
                    assert await status_of(rig.port, method, path, b"", *PREFLIGHT) == 401, (path, method)
        assert rig.machine.events == []


async def test_sec_09_without_cors_a_preflight_needs_a_key_as_everything_does(model: RouterModel) -> None:
    async with open_rig(model, KEYS, stop_grace_s=0.5) as rig:
        for path in routes(rig):
            assert await status_of(rig.port, "OPTIONS", path, b"", *PREFLIGHT) == 401, path


async def test_sec_09_every_key_opens_what_is_there(model: RouterModel) -> None:
    async with open_rig(model, KEYS, stop_grace_s=0.5) as rig:
        for authorization in (f"Bearer {KEY}", f"bearer  {KEY}", "Bearer clé-0123456789-0123"):
            assert await status_of(rig.port, "GET", "/v1/models", authorization.encode()) == 200
        assert await status_of(rig.port, "GET", "/nothing", f"Bearer {KEY}".encode()) == 404


async def test_sec_09_a_refusal_names_the_scheme_and_reads_no_body(model: RouterModel) -> None:
    async with open_rig(model, KEYS, stop_grace_s=0.5) as rig:
        reader, writer = await asyncio.open_connection("127.0.0.1", rig.port)
        writer.write(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n")  # and no body
        answer = (await reader.read()).decode()
        writer.close()
        assert answer.startswith("HTTP/1.1 401 ")
        assert "\r\nWWW-Authenticate: Bearer\r\n" in answer
        assert "\r\nConnection: close\r\n" in answer


async def test_sec_09_who_has_no_key_takes_nothing_from_one_and_is_told_nothing_of_it(model: RouterModel) -> None:
    """A key of one request at once: others' wrong keys, preflights, bodies and media types do not use it up."""
    keys = ApiKeys(parse_keys(f"{KEY} rate=0.001 burst=1 concurrency=1\n", "test", 9), bytes(16))
    async with open_rig(model, keys, stop_grace_s=0.5, cors_allow_origins=(PAGE,)) as rig:
        for path in [path for path in routes(rig) if path not in OPEN]:
            for authorization in [*WRONG, f"Bearer {KEY}x".encode(), f"Basic {KEY}".encode()]:
                assert await status_of(rig.port, "POST", path, authorization, ORIGIN) == 401, path
            assert await status_of(rig.port, "OPTIONS", path, f"Bearer {KEY}".encode(), *PREFLIGHT) == 204
        async with rig.http.post(rig.url + "/v1/completions", data=b"no JSON") as response:
            assert response.status == 401  # and not 415
            assert not [name for name in response.headers if name.lower().startswith("x-ratelimit")]
            assert "Retry-After" not in response.headers
        body = {"model": "tiny", "prompt": "x", "max_tokens": 1}
        statuses = []
        for _ in range(2):
            headers = {"Authorization": f"Bearer {KEY}"}
            async with rig.http.post(rig.url + "/v1/completions", json=body, headers=headers) as response:
                statuses.append((response.status, response.headers["x-ratelimit-remaining-requests"]))
        assert statuses == [(200, "0"), (429, "0")]
        for path in OPEN:
            assert await status_of(rig.port, "GET", path, b"") == 200


@pytest.mark.parametrize("text", ["", "\n  \n", "# only a comment\n"])
def test_sec_09_a_file_without_keys_does_not_open_the_server(tmp_path: Path, text: str) -> None:
    path = tmp_path / "keys"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(NoApiKeys):
        read_key_file(path, 9)
