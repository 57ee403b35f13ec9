"""Pages of other origins: nothing without the setting; with it, every answer says whom it is for."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from hypothesis import given
from hypothesis import strategies as st
from multidict import CIMultiDictProxy

from baton.services.router.http.auth import ApiKeys
from baton.services.router.http.cors import CorsPolicy, OriginInvalid
from baton.services.router.http.key_file import parse_keys
from baton.services.router.text.model_folder import RouterModel
from tests.services.router.rig import Rig, open_rig

KEY = "sk-0123456789abcdef"
PAGE, SECOND, OTHER = "https://app.example", "http://localhost:3000", "https://other.example"
BODY = {"model": "tiny", "prompt": "hello", "max_tokens": 2}
AUTHORIZED = {"Authorization": f"Bearer {KEY}"}
PREFLIGHT = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization,content-type"}
Headers = CIMultiDictProxy[str]


def keys(fields: str = "") -> ApiKeys:
    return ApiKeys(parse_keys(f"{KEY} {fields}", "test", 9), bytes(16), lambda: 0)


@pytest_asyncio.fixture
async def open_to_pages(model: RouterModel) -> AsyncIterator[Rig]:
    async with open_rig(model, keys("rate=1 burst=2"), stop_grace_s=0.5, cors_allow_origins=(PAGE, SECOND)) as opened:
        yield opened


async def ask(rig: Rig, method: str, path: str, headers: dict[str, str], **options: Any) -> tuple[int, Headers]:
    async with rig.http.request(method, rig.url + path, headers=headers, **options) as response:
        await response.read()
        return response.status, response.headers


def said(headers: Headers) -> dict[str, str]:
    return {name: value for name, value in headers.items() if name.startswith("Access-Control-") or name == "Vary"}


async def test_nothing_is_said_about_origins_unless_asked_for(model: RouterModel) -> None:
    async with open_rig(model, stop_grace_s=0.5) as rig:
        for method, headers in (("GET", {}), ("GET", {"Origin": PAGE}), ("OPTIONS", {"Origin": PAGE} | PREFLIGHT)):
            status, answered = await ask(rig, method, "/v1/models", headers)
            assert status == (405 if method == "OPTIONS" else 200)
            assert said(answered) == {}


async def test_a_preflight_is_answered_without_a_key_and_reaches_nothing(open_to_pages: Rig) -> None:
    for path in ("/v1/completions", "/v1/models", "/nothing"):
        status, headers = await ask(open_to_pages, "OPTIONS", path, {"Origin": SECOND} | PREFLIGHT)
        assert status == 204
        assert said(headers) == {
            "Vary": "Origin",
            "Access-Control-Allow-Origin": SECOND,
            "Access-Control-Allow-Methods": "GET, POST",
            "Access-Control-Allow-Headers": "Authorization, Content-Type, X-Request-Id",
            "Access-Control-Max-Age": "600",
            "Access-Control-Expose-Headers": headers["Access-Control-Expose-Headers"],
        }
    assert open_to_pages.machine.events == []
    _, headers = await ask(open_to_pages, "GET", "/v1/models", AUTHORIZED)
    assert headers["x-ratelimit-remaining-requests"] == "2"


@pytest.mark.parametrize("headers", [{}, {"Origin": OTHER}, {"Origin": "null"}, {"Origin": PAGE + ".other.example"}])
async def test_another_origin_is_told_nothing_but_that_it_matters(open_to_pages: Rig, headers: dict[str, str]) -> None:
    status, answered = await ask(open_to_pages, "GET", "/v1/models", headers | AUTHORIZED)
    assert (status, said(answered)) == (200, {"Vary": "Origin"})
    status, answered = await ask(open_to_pages, "OPTIONS", "/v1/models", headers | PREFLIGHT)
    assert (status, said(answered)) == (401, {"Vary": "Origin"})


async def test_errors_and_streams_carry_the_headers_too(open_to_pages: Rig) -> None:
    from_page = {"Origin": PAGE}
    asked: list[tuple[dict[str, str], dict[str, Any]]] = [
        ({}, BODY),
        (AUTHORIZED, {"model": "tiny", "prompt": 3}),
        (AUTHORIZED, BODY | {"stream": True}),
        (AUTHORIZED, BODY),
    ]
    statuses = []
    for headers, body in asked:
        status, answered = await ask(open_to_pages, "POST", "/v1/completions", from_page | headers, json=body)
        statuses.append(status)
        assert answered["Access-Control-Allow-Origin"] == PAGE
        assert answered.getall("Vary") == ["Origin"]
        exposed = {name.strip().lower() for name in answered["Access-Control-Expose-Headers"].split(",")}
        assert {"x-request-id", "retry-after"} <= exposed
        assert {name.lower() for name in answered if name.lower().startswith("x-ratelimit-")} <= exposed
        assert "Access-Control-Allow-Credentials" not in answered
    assert statuses == [401, 400, 200, 429]


async def test_a_bug_behind_a_page_is_an_answer_that_the_page_may_read(
    open_to_pages: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(open_to_pages.front, "enter", fail)
    status, headers = await ask(open_to_pages, "POST", "/v1/completions", {"Origin": PAGE} | AUTHORIZED, json=BODY)
    assert (status, headers["Access-Control-Allow-Origin"]) == (500, PAGE)


async def test_all_origins_are_allowed_by_a_star_and_none_with_credentials(model: RouterModel) -> None:
    async with open_rig(model, keys(), stop_grace_s=0.5, cors_allow_origins=("*",)) as rig:
        for method, headers in (("GET", {}), ("OPTIONS", PREFLIGHT)):
            status, answered = await ask(rig, method, "/v1/models", {"Origin": OTHER} | headers)
            assert status == (204 if headers else 401)
            assert answered["Access-Control-Allow-Origin"] == "*"
            assert "Access-Control-Allow-Credentials" not in answered


@pytest.mark.parametrize(
    "origin", ["", "app.example", "https://app.example/", "https://app.example/x", "https://App.example", "null",
               "https://*.example", "https://app.example:port", "https://a b", "https://app.example\r\nX: y"],
)  # fmt: skip
def test_what_no_browser_sends_is_refused_at_the_start(origin: str) -> None:
    with pytest.raises(OriginInvalid, match=r"http\.cors_allow_origins: "):
        CorsPolicy((PAGE, origin))


@pytest.mark.parametrize("origin", ["*", "http://[::1]:8080", "http://127.0.0.1", "chrome-extension://abcdef"])
def test_what_browsers_send_may_be_listed(origin: str) -> None:
    assert CorsPolicy((origin,)).headers(origin)["Access-Control-Allow-Origin"] == origin


@given(st.text() | st.sampled_from([PAGE, SECOND]))
def test_only_a_listed_origin_is_ever_named(origin: str) -> None:
    allowed = CorsPolicy((PAGE, SECOND)).headers(origin).get("Access-Control-Allow-Origin")
    assert allowed == (origin if origin in (PAGE, SECOND) else None)
