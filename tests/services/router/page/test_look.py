"""The built-in page: its layout at two widths, who can use it, and where it comes from."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from baton.core.router.events import End
from baton.services.router.http.builtin_page import FILES
from baton.services.router.text.model_folder import RouterModel
from tests.services.router.page.conftest import Tab, open_tab
from tests.services.router.page.test_chat import ANSWER, STAGES, begun
from tests.services.router.rig import Rig, say
from tests.support.browser import CONTRAST, FLAWS, MIN_CONTRAST

METRICS = b"""# HELP baton_streams streams
baton_notes_total{reason="",what="request ended"} 5.0
baton_notes_total{reason="DEADLINE",what="request ended"} 2.0
baton_notes_total{reason="",what="peer up"} 9.0
baton_ended_ok_total 5.0
baton_streams 3.0
baton_executors_linked 3.0
baton_executors_prefill 2.0
baton_executors_decode 1.0
baton_executors_unified 0.0
baton_output_tokens_total 1.2e+03
"""
LONG = "A word of " + "many" * 60 + " letters, and more of them that come afterwards. " * 3


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [400, 1280])
async def test_everything_has_its_place(model: RouterModel, tmp_path: Path, width: int, scheme: str) -> None:
    async with open_tab(model, tmp_path / "profile", scheme=scheme, width=width) as tab:
        machine = tab.rig.machine
        tab.rig.probes["metrics"] = lambda: METRICS
        machine.script = say(LONG)
        await tab.shows("#fact-open", "3")
        await tab.page.click("summary")
        await tab.page.get_by_label("Max tokens").fill("1000")
        await begun(tab, LONG)
        machine.deliver(1, 0, 2000)
        machine.live.pop(1)
        tab.rig.front.perform(End(1, None, stages_ms=STAGES))
        await tab.shows(ANSWER, LONG)
        tab.rig.front.limits = None
        await tab.send("Another one")
        await tab.page.wait_for_selector(".failure")
        assert await tab.page.evaluate(FLAWS) == []
        contrast, text = await tab.page.evaluate(CONTRAST)
        assert contrast >= MIN_CONTRAST, text
        await tab.page.click("summary")
        assert await tab.page.evaluate(FLAWS) == []
        if folder := os.environ.get("BATON_PAGE_PICTURES"):
            await tab.page.screenshot(path=f"{folder}/{width}-{scheme}.png")


async def test_the_servers_state_is_shown(tab: Tab) -> None:
    tab.rig.probes["metrics"] = lambda: METRICS
    await tab.shows("#fact-ended", "5 ok, 2 failed")
    names = ("model", "context", "executors", "open")
    shown = [await tab.text(f"#fact-{name}") for name in names]
    assert shown == ["tiny, tiny-alias", "4,096 tokens", "2 prefill, 1 decode", "3"]
    await tab.shows("#fact-rate", "0 tokens/s")


async def test_every_field_and_button_has_a_name(tab: Tab) -> None:
    await tab.page.click("summary")
    for label in ("Message", "System prompt", "Temperature", "Max tokens", "API key"):
        assert await tab.page.get_by_label(label, exact=False).is_visible(), label
    for name in ("Send", "New chat"):
        assert await tab.page.get_by_role("button", name=name).is_visible(), name
    assert await tab.page.locator("[role=log][aria-live=polite], [role=status]").count() == 2
    await tab.page.focus("#message")
    reached = []
    for _ in range(7):
        await tab.page.keyboard.press("Tab")
        reached.append(await tab.page.evaluate("document.activeElement.id || document.activeElement.tagName"))
    assert reached == ["SUMMARY", "system", "temperature", "max-tokens", "key", "clear", "send"]


async def test_its_files_may_not_load_anything_from_elsewhere(rig: Rig) -> None:
    for path, (_, media_type, _, _) in FILES.items():
        async with rig.http.get(rig.url + path) as answer:
            text = await answer.text()
            assert (answer.status, answer.content_type) == (200, media_type)
            assert answer.headers["Content-Security-Policy"].startswith("default-src 'self'; ")
            assert "https://" not in text
            assert "innerHTML" not in text
            etag = answer.headers["ETag"]
        async with rig.http.get(rig.url + path, headers={"If-None-Match": etag}) as answer:
            assert (answer.status, await answer.text()) == (304, "")
