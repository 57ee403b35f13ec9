"""The built-in page says what went wrong, and what to do."""

from __future__ import annotations

from pathlib import Path

from baton.core.errors import Reason
from baton.core.router.events import End
from baton.services.router.http.auth import ApiKeys
from baton.services.router.http.key_file import parse_keys
from baton.services.router.text.model_folder import RouterModel
from tests.services.router.page.conftest import Tab, open_tab
from tests.services.router.page.test_chat import ANSWER, begun
from tests.services.router.rig import say

KEY = "sk-0123456789abcdef"
FAILURE = ".turn:last-child .failure p"


def keys(fields: str = "") -> ApiKeys:
    return ApiKeys(parse_keys(f"{KEY} {fields}", "test", 9), bytes(16), lambda: 0)


async def test_a_missing_key_is_asked_for_and_kept_nowhere(model: RouterModel, tmp_path: Path) -> None:
    async with open_tab(model, tmp_path / "profile", keys()) as tab:
        tab.rig.machine.script = say("opened")
        await tab.shows("#facts-note", "The rest is shown to those with an API key.")
        await tab.send("Hello")
        await tab.shows(FAILURE, "An API key is needed: a valid API key is needed. Enter it under Settings.")
        await tab.page.get_by_label("API key").fill(KEY)  # the settings are open now
        await tab.page.get_by_role("button", name="Try again").click()
        await tab.shows(ANSWER, "opened")
        await tab.shows("#fact-model", "tiny, tiny-alias")
        stored = "[{...localStorage}, {...sessionStorage}, document.cookie, location.href]"
        assert await tab.page.evaluate(stored) == [{}, {}, "", tab.rig.url + "/"]


async def test_too_many_requests_say_when_to_come_back(model: RouterModel, tmp_path: Path) -> None:
    async with open_tab(model, tmp_path / "profile", keys("rate=0.1 burst=1")) as tab:
        tab.rig.machine.script = say("one")
        await tab.page.click("summary")
        await tab.page.get_by_label("API key").fill(KEY)
        await tab.send("Hello")
        await tab.shows(ANSWER, "one")
        assert not await tab.page.get_by_label("API key").is_visible()  # the settings make room
        await tab.send("Hello again")
        await tab.page.wait_for_selector(FAILURE)
        shown = await tab.text(FAILURE)
        assert shown.startswith("Too many requests: this key may begin 0.1 requests per second")
        assert shown.endswith("Try again in 10 s.")


async def test_a_server_that_cannot_serve_says_why(tab: Tab) -> None:
    tab.rig.front.limits = None
    await tab.shows("#state", "Not ready: no executor is known")
    await tab.send("Hello")
    await tab.shows(FAILURE, "Not served now: no executor can serve this now. Try again in 1 s.")
    assert "Request 1, failed" in await tab.text("#requests li")


async def test_an_error_in_the_stream_is_shown_beside_what_came(tab: Tab) -> None:
    machine = tab.rig.machine
    machine.script = say("half of it")
    await begun(tab, "Hello")
    machine.deliver(1, 0, 4)
    await tab.shows(ANSWER, "half")
    machine.end(1, Reason.PEER_LOST)
    await tab.shows(FAILURE, "The answer broke off: an executor was lost.")
    assert await tab.text(ANSWER) == "half"


async def test_a_connection_that_breaks_is_no_end(tab: Tab) -> None:
    machine = tab.rig.machine
    machine.script = say("half of it")
    await begun(tab, "Hello")
    machine.deliver(1, 0, 4)
    await tab.shows(ANSWER, "half")
    for connection in tab.rig.server.connections:
        connection.transport.abort()
    await tab.shows(FAILURE, "The connection broke: the server cannot be reached, or it ended the connection.")


async def test_a_failed_request_can_be_tried_again_and_is_not_repeated_as_history(tab: Tab) -> None:
    machine = tab.rig.machine
    machine.refusal = End(0, Reason.KV_EXHAUSTED)
    await tab.send("only once")
    await tab.shows(FAILURE, "Not served now: too little KV memory is free. Try again in 1 s.")
    machine.refusal = None
    machine.script = say("now it works")
    await tab.page.get_by_role("button", name="Try again").click()
    await tab.shows(ANSWER, "now it works")
    prompt = bytes(machine.arrives[2].prompt[::4])
    assert prompt.count(b"only once") == 1
