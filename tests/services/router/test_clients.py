"""On whose behalf a request is: what handlers read from it."""

from __future__ import annotations

from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from baton.core.router.events import Arrive
from baton.services.router.http.auth import CLIENT, ApiKeys, Client, key_middleware, own_tenant
from baton.services.router.http.key_file import parse_keys
from tests.services.router.rig import Rig

KEY, OTHER = "sk-0123456789abcdef", "sk-fedcba9876543210"
KEYS = f"{KEY} tenant=team-a priority=4\n{OTHER}"
HASH_KEY = bytes(range(16))


async def clients_of(api_keys: ApiKeys, *given: str) -> list[Client]:
    """As a handler sees them, one for each of these keys."""
    seen: list[Client] = []

    async def handler(request: web.Request) -> web.Response:
        seen.append(request[CLIENT])
        return web.Response()

    app = web.Application(middlewares=[key_middleware(api_keys, 1)])
    app.router.add_get("/seen", handler)
    async with TestClient(TestServer(app)) as client:
        for key in given:
            await client.get("/seen", headers={"Authorization": f"Bearer {key}"})
    return seen


async def test_a_key_says_its_tenant_and_its_most_urgent_class() -> None:
    api_keys = ApiKeys(parse_keys(KEYS, "test", 9), HASH_KEY)
    assert await clients_of(api_keys, KEY, OTHER) == [Client("team-a", 4), Client(own_tenant(OTHER, HASH_KEY), 0)]


async def test_routers_with_the_same_deployments_key_say_the_same() -> None:
    both = [ApiKeys(parse_keys(KEYS, "test", 9), HASH_KEY) for _ in range(2)]
    assert await clients_of(both[0], OTHER) == await clients_of(both[1], OTHER)


async def test_without_keys_everybody_is_the_same_client(rig: Rig) -> None:
    body = {"model": "tiny", "prompt": "hello", "max_tokens": 2}
    for key in (KEY, OTHER):
        headers = {"Authorization": f"Bearer {key}"}
        async with rig.http.post(rig.url + "/v1/completions", json=body, headers=headers) as response:
            assert response.status == 200
    first, second = (event for event in rig.machine.events if isinstance(event, Arrive))
    assert (first.tenant, second.tenant) == ("", "")
    assert first.root == second.root
