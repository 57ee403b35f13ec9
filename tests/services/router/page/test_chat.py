"""The built-in page's chat: what it asks, what it shows, how it stops."""

from __future__ import annotations

from baton.core.errors import Reason
from baton.core.router.events import End
from tests.services.router.page.conftest import Tab
from tests.services.router.rig import prompt_ids, say

ANSWER = ".turn.assistant:last-child .text"
STAGES = {"queued_ms": 5.0, "prefill_ms": 20.0, "transfer_ms": 4.0, "decode_ms": 1500.0}
MARKUP = '<img src=x onerror="window.ran = true"><script>window.ran = true</script>&amp;'


def prompt_of(tab: Tab, request_id: int) -> str:
    return bytes(token for token in prompt_ids(tab.rig.machine.arrives[request_id]) if token < 256).decode()


async def begun(tab: Tab, text: str, number: int = 1) -> None:
    """Send it to a machine that says nothing yet."""
    tab.rig.machine.is_held = True
    await tab.send(text)
    await tab.rig.machine.until(lambda: number in tab.rig.machine.live)


async def test_an_answer_is_shown_as_it_comes(tab: Tab) -> None:
    machine = tab.rig.machine
    machine.script = say("Hello, wörld!")
    await begun(tab, "Greet me")
    assert await tab.page.get_attribute("#log", "aria-busy") == "true"
    machine.deliver(1, 0, 5)
    await tab.shows(ANSWER, "Hello")
    machine.deliver(1, 0, 100)
    await tab.shows(ANSWER, "Hello, wörld!")
    machine.live.pop(1)
    tab.rig.front.perform(End(1, None, num_cached_tokens=3, stages_ms=STAGES))
    await tab.page.wait_for_selector("#requests li")
    row = (await tab.text("#requests li")).replace("\xa0", " ")
    assert "queued 5.0 ms · prefill 20 ms · transfer 4.0 ms · decode 1.50 s" in row
    assert "first byte after" in row
    assert "(3 cached) · 15 out" in row
    assert await tab.page.locator("#requests .bar span").count() == 4
    assert await tab.page.get_attribute("#log", "aria-busy") == "false"


async def test_a_request_is_what_the_settings_say(tab: Tab) -> None:
    await tab.page.click("summary")
    await tab.page.get_by_label("System prompt").fill("Be brief")
    await tab.page.get_by_label("Temperature").fill("0.4")
    await tab.page.get_by_label("Max tokens").fill("7")
    tab.rig.machine.script = say("abcdefghi")
    await tab.send("First question")
    await tab.shows(".turn .end", "Cut off at the maximum of tokens.")
    arrive = tab.rig.machine.arrives[1]
    assert (arrive.sampling.temperature, arrive.sampling.max_tokens) == (0.4, 7)
    assert "Be brief" in prompt_of(tab, 1)
    await tab.send("Second question")
    await tab.page.wait_for_selector("#requests li:nth-child(2)")
    assert [part in prompt_of(tab, 2) for part in ("First question", "abcdefg", "Second question")] == [True] * 3


async def test_settings_out_of_range_are_not_sent(tab: Tab) -> None:
    await tab.page.click("summary")
    await tab.page.get_by_label("Temperature").fill("3")
    await tab.send("Hello")
    assert await tab.page.evaluate("document.activeElement.id") == "temperature"
    assert await tab.page.input_value("#message") == "Hello"
    assert tab.rig.machine.events == []


async def test_stop_ends_the_request_at_the_server(tab: Tab) -> None:
    machine = tab.rig.machine
    machine.script = say("one two three", "length")
    await begun(tab, "Count")
    machine.deliver(1, 0, 7)
    await tab.shows(ANSWER, "one two")
    await tab.page.click("#stop")
    await machine.until(lambda: machine.gone != [])
    assert (machine.gone[0].request_id, machine.gone[0].reason) == (1, Reason.ABORTED)
    await tab.shows(".turn .end", "Stopped.")
    assert "Request 1, stopped" in await tab.text("#requests li")
    assert await tab.page.is_visible("#send")
    assert await tab.page.evaluate("document.activeElement.id") == "message"


async def test_what_the_model_and_the_user_write_stays_text(tab: Tab) -> None:
    tab.rig.machine.script = say(MARKUP)
    await tab.page.click("summary")
    await tab.page.get_by_label("Max tokens").fill("200")
    await tab.send(MARKUP)
    await tab.page.wait_for_selector("#requests li")
    assert await tab.page.locator(".turn .text").all_text_contents() == [MARKUP, MARKUP]
    assert await tab.page.locator("#log img, #log script").count() == 0
    assert await tab.page.evaluate("window.ran") is None


async def test_enter_sends_shift_enter_makes_a_line_and_nothing_is_not_sent(tab: Tab) -> None:
    tab.rig.machine.script = say("ok")
    await tab.page.focus("#message")
    await tab.page.keyboard.press("Enter")
    await tab.page.keyboard.type("one")
    await tab.page.keyboard.press("Shift+Enter")
    await tab.page.keyboard.type("two")
    await tab.page.keyboard.press("Enter")
    await tab.shows(ANSWER, "ok")
    assert "one\ntwo" in prompt_of(tab, 1)
    assert len(tab.rig.machine.arrives) == 1


async def test_a_new_chat_forgets_what_was_said(tab: Tab) -> None:
    tab.rig.machine.script = say("remembered")
    await tab.send("before")
    await tab.page.wait_for_selector("#requests li")
    await tab.page.click("#clear")
    assert await tab.page.locator(".turn").count() == 0
    await tab.send("after")
    await tab.page.wait_for_selector("#requests li:nth-child(2)")
    assert [part in prompt_of(tab, 2) for part in ("before", "remembered", "after")] == [False, False, True]
