"""The page in a browser: its layout at two widths, what it says without a pointer, and what it does with odd runs."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import msgspec
import pytest

from baton.core.metrics.compat import Tool
from baton.core.metrics.executors import ExecutorUse
from baton.core.metrics.facts import Failure, RequestFacts
from baton.core.metrics.goodput import NO_SLO
from baton.core.metrics.intervals import Estimate
from baton.services.loadgen.html import render
from tests.services.loadgen.html.conftest import open_report
from tests.services.loadgen.html.runs import report_of, requests, server_series
from tests.services.loadgen.html.test_page import HOSTILE
from tests.support.browser import CONTRAST, FLAWS, HEIGHT, MIN_CONTRAST

EXECUTORS = (
    ExecutorUse(name="prefill-0", num_steps=1234, busy_share=0.25, kv_bytes=12_340_000_000),
    ExecutorUse(name="decode-0", num_steps=9, busy_share=0.9991, occupied_share=0.5),
)
A4_PX = 718  #: what the margins of a browser leave of its width


def whole_page() -> str:
    facts = requests(300)
    said: dict[str, Any] = {"warnings": ("a warning",), "notes": ("a note",), "executors": EXECUTORS}
    report = report_of(facts, tools=tuple(Tool), server_series=server_series(facts), **said)
    summary = msgspec.structs.replace(report.summary, degraded=("18.40 requests/s were sent, 20.00 asked for",))
    return render([msgspec.structs.replace(report, summary=summary)], [facts])


def sweep_page() -> str:
    rates = (4.0, 8.0, 24.0, 48.0)
    runs = [requests(60, rate, 0.0 if rate < 20 else 0.1) for rate in rates]
    reports = [report_of(facts, label=f"rate={rate:g}") for facts, rate in zip(runs, rates, strict=True)]
    return render(reports, runs)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [400, 1280])
@pytest.mark.parametrize("kind", ["run", "sweep"])
async def test_everything_has_its_place(tmp_path: Path, kind: str, width: int, scheme: str) -> None:
    text = whole_page() if kind == "run" else sweep_page()
    async with open_report(text, tmp_path, scheme, width) as page:
        assert await page.evaluate(FLAWS) == []
        contrast, text = await page.evaluate(CONTRAST)
        assert contrast >= MIN_CONTRAST, text
        for summary in await page.locator("summary").all():
            await summary.click()
        assert await page.evaluate(FLAWS) == []
        ground = await page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert (ground == "rgb(20, 23, 27)") == (scheme == "dark")
        if folder := os.environ.get("BATON_PAGE_PICTURES"):
            await page.screenshot(path=f"{folder}/report-{kind}-{width}-{scheme}.png", full_page=True)


async def test_everything_has_its_place_at_widths_between_and_on_paper(tmp_path: Path) -> None:
    async with open_report(whole_page(), tmp_path) as page:
        for width in (320, 768, 1000):
            await resized(page, width)
            assert await page.evaluate(FLAWS) == [], width
        await page.emulate_media(media="print")
        await resized(page, A4_PX)
        assert await page.evaluate(FLAWS) == []


async def resized(page: Any, width: int) -> None:
    """Returns when the plots are drawn as wide as they are now."""
    await page.set_viewport_size({"width": width, "height": HEIGHT})
    await page.wait_for_function("""() => [...document.querySelectorAll("svg.plot")].every((plot) =>
      Math.abs(plot.viewBox.baseVal.width - plot.getBoundingClientRect().width) < 1)""")


async def test_what_is_shown_is_what_the_report_says(tmp_path: Path) -> None:
    facts = requests(300)
    report = report_of(facts)
    summary = report.summary
    async with open_report(render([report], [facts]), tmp_path) as page:
        first = [
            cell.strip() for cell in await page.locator("table.figures tbody tr").first.locator("td").all_inner_texts()
        ]
        ttft = summary.distributions["ttft_s"]
        values = (ttft.mean, ttft.std, ttft.min, ttft.p50, ttft.p90, ttft.p95, ttft.p99)
        assert first[:2] == ["ms", f"{ttft.count}"]
        assert [float(text) for text in first[2:9]] == [
            pytest.approx(value * 1e3, abs=0.051) for value in values if value
        ]
        assert first[9] == "–"  # below 1000 values
        shown = (await page.inner_text(".tile.success")).replace("\xa0", " ")
        for failure, count in summary.counts.failures.items():
            assert f"{count} {failure}" in shown
        assert f"{summary.counts.succeeded} of {summary.counts.planned} requests" in shown
        output = summary.throughput.output_tokens_per_s
        assert output is not None
        assert f"{output:,.0f}" in await page.inner_text(".tile.output .big")
        assert await page.locator("#objectives tbody tr").count() == 4


async def test_a_rate_of_chats_is_in_sessions_and_no_line_says_that_all_are_good(tmp_path: Path) -> None:
    single = requests(20, share_failed=0.0)
    chats = [msgspec.structs.replace(row, session=f"chat {row.index}") for row in single]
    for facts, unit, sent, lines in ((single, "requests/s", "sent/s", 1), (chats, "sessions/s", "sessions sent/s", 0)):
        async with open_report(render([report_of(facts)] * 2, [facts] * 2), tmp_path) as page:
            rows = page.locator("table.singles tbody tr").filter(has_text="Request rate, asked")
            assert unit in await rows.inner_text()
            assert f" {sent}" in (await page.inner_text(".tile.output .beside"))
            assert await page.locator("#sweep line.dashed").count() == lines


async def test_executors_are_told_of_where_they_are_known(tmp_path: Path) -> None:
    facts = requests(20)
    shown = []
    for known in (EXECUTORS, ()):
        async with open_report(render([report_of(facts, executors=known)], [facts]), tmp_path) as page:
            cells = await page.locator("#executors tbody td").all_inner_texts()
            shown.append([text.replace("\xa0", " ") for text in cells])
    assert shown == [["1,234", "25.0 %", "0 %", "12.34", "9", "99.9 %", "50.0 %", "0.00"], []]


async def test_notes_are_no_warnings_and_an_interval_of_no_width_is_0(tmp_path: Path) -> None:
    facts = requests(20)
    spread = {
        "ttft_s.p50": Estimate(value=0.3, low=0.3, high=0.3 + 1e-12, num_runs=5),
        "itl_s.p50": Estimate(value=0.02, low=0.0199, high=0.0201, num_runs=5),
    }
    report = report_of(facts, notes=("of a machine",), intervals=spread)
    async with open_report(render([report], [facts]), tmp_path) as page:
        assert await page.locator(".notice.warned").count() == 0
        assert (await page.locator(".notice li").all_inner_texts())[0] == "of a machine"
        rows = await page.locator("#intervals tbody tr").all()
        assert [(await row.locator("td").last.inner_text()).replace("\xa0", " ") for row in rows] == ["0.0 %", "0.5 %"]


async def test_what_the_end_of_the_run_cut_short_is_part_of_the_whole_and_what_was_cancelled_as_planned_is_not(
    tmp_path: Path,
) -> None:
    good = requests(8, share_failed=0.0)
    cut = {index: {"is_cancelled": True, "is_cut_short": index > 0} for index in range(3)}
    facts = [msgspec.structs.replace(row, **cut.get(row.index, {})) for row in good]
    async with open_report(render([report_of(facts)], [facts]), tmp_path) as page:
        shown = (await page.inner_text(".tile.success")).replace("\xa0", " ")
        assert "5 of 7 requests" in shown
        assert "2 cut short" in shown
        assert "1 cancelled" in shown
        assert "2 of 8 requests were cut short" in await page.inner_text(".notice.degraded")


async def test_answers_in_one_piece_have_no_first_token_on_the_page(tmp_path: Path) -> None:
    facts = [
        msgspec.structs.replace(row, chunks=row.chunks[-1:], is_whole=True) for row in requests(30, share_failed=0.0)
    ]
    async with open_report(render([report_of(facts)], [facts]), tmp_path) as page:
        assert await page.evaluate(FLAWS) == []
        await page.focus("#requests canvas")
        await page.keyboard.press("Home")
        assert "first token after –" in await page.inner_text("#requests .readout")


async def test_keys_read_values_without_a_pointer(tmp_path: Path) -> None:
    facts = requests(60)
    report = report_of(facts)
    async with open_report(render([report], [facts]), tmp_path) as page:
        await page.focus("#time .panel:nth-child(4) svg")
        await page.keyboard.press("End")
        assert await page.inner_text("#time .panel:nth-child(4) .legend .value") != ""
        await page.focus("#requests canvas")
        await page.keyboard.press("Home")
        assert (await page.inner_text("#requests .readout")).startswith("Request 0: due ")
        await page.keyboard.press("ArrowDown")
        assert (await page.inner_text("#requests .readout")).startswith("Request 1: due ")
        await page.focus("#distributions svg")
        await page.keyboard.press("ArrowRight")
        assert "up to here" in await page.inner_text("#distributions .readout")


async def test_a_point_of_a_sweep_is_chosen(tmp_path: Path) -> None:
    async with open_report(sweep_page(), tmp_path) as page:
        assert (await page.locator("table.sweep thead th").all_inner_texts())[-2:] == ["good", "good/s"]
        assert await page.inner_text("#chosen") == "In detail: rate=4"
        await page.get_by_label("rate=24").check()
        assert await page.inner_text("#chosen") == "In detail: rate=24"
        assert await page.evaluate("document.activeElement.value") == "2"
        assert await page.locator("main").count() == 1
        assert await page.evaluate(FLAWS) == []


async def test_a_sweep_without_objectives_has_no_column_for_them(tmp_path: Path) -> None:
    runs = [requests(20, rate, 0.0) for rate in (4.0, 8.0)]
    async with open_report(render([report_of(facts, slo=NO_SLO) for facts in runs], runs), tmp_path) as page:
        heads = await page.locator("table.sweep thead th").all_inner_texts()
        assert heads[-1] == "E2E p99, schedule"
        assert "Successes against rate" in await page.inner_text("#sweep")


async def test_large_numbers_have_room_beside_their_axis(tmp_path: Path) -> None:
    facts = requests(60)
    report = report_of(facts)
    num_bins = len(report.series.concurrency)
    large = {"output_tokens_per_s": (1.5e6,) * num_bins, "concurrency": (250_000.0,) * num_bins}
    text = render([msgspec.structs.replace(report, series=msgspec.structs.replace(report.series, **large))], [facts])
    async with open_report(text, tmp_path, width=400) as page:
        assert await page.evaluate(FLAWS) == []
        for panel, labels in ((4, ["0", "0.5 M", "1 M", "1.5 M"]), (6, ["0", "100 k", "200 k", "300 k"])):
            texts = await page.locator(f"#time .panel:nth-child({panel}) .axis:first-child text").all_text_contents()
            assert [text.replace("\xa0", " ") for text in texts] == labels


async def test_texts_of_a_server_stay_text(tmp_path: Path) -> None:
    facts = [
        RequestFacts(index=0, scheduled_s=0.0, sent_s=0.1, done_s=1.0, failure=Failure.ERROR_EVENT, detail=HOSTILE)
    ]
    report = report_of(facts, warnings=(HOSTILE,), server_series={HOSTILE: ((0.5, 1.0),)})
    run = msgspec.structs.replace(report.run, model=HOSTILE, settings={HOSTILE: HOSTILE})
    async with open_report(render([msgspec.structs.replace(report, run=run)], [facts]), tmp_path, width=400) as page:
        await page.click("#requests summary")
        assert await page.locator("h1").text_content() == HOSTILE
        assert await page.locator("#requests td").last.text_content() == HOSTILE
        assert await page.evaluate("window.ran") is None
        assert await page.locator("img").count() == 0
        assert await page.evaluate(FLAWS) == []


FAILED = [RequestFacts(index=at, scheduled_s=at / 10, done_s=at / 10 + 0.1, failure=Failure.CONNECT) for at in range(9)]


@pytest.mark.parametrize("width", [400, 1280])
@pytest.mark.parametrize(
    ("facts", "said"),
    [([], "–"), (FAILED, "0 %"), (requests(1, share_failed=0.0), "100 %")],
    ids=["none", "all failed", "one"],
)
async def test_odd_runs_are_shown(tmp_path: Path, facts: list[RequestFacts], said: str, width: int) -> None:
    async with open_report(render([report_of(facts, slo=NO_SLO)], [facts]), tmp_path, width=width) as page:
        assert (await page.inner_text(".tile.success .big")).replace("\xa0", " ") == said
        assert await page.evaluate(FLAWS) == []
        assert await page.locator("#objectives").count() == 0
        assert "NaN" not in await page.inner_text("main")
        assert (await page.inner_text("#time")).endswith("No requests.") == (not facts)
        # without a success there is no latency, and so no axis for one
        assert await page.locator("#time .panel:first-child svg").count() == (said == "100 %")
        assert await page.locator("#time .swatch.bad").count() == (said == "0 %")
