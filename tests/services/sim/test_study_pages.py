"""The pages of comparisons and searches in a browser: their layout at two widths, in light and dark, and what they say
without a pointer."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from baton.services.sim.html import Chart, Column, Line, Page, TableOf, render
from tests.services.loadgen.html.conftest import open_report
from tests.services.loadgen.html.test_page import HOSTILE
from tests.support.browser import CONTRAST, FLAWS, MIN_CONTRAST

RATES = (1.0, 2.0, 4.0, 8.0, 16.0)
SENTENCE = (
    "2P2D serves more good requests than 4U from 4 to 16 requests/s, up to 38 % more, because 4U keeps less; " * 3
)


def comparison() -> Page:
    good = Line("2P2D", [(rate, min(rate, 9.5), min(rate, 9.5) * 0.9, min(rate, 9.5) * 1.1) for rate in RATES])
    other = Line("4U", [(rate, min(rate, 6.5), min(rate, 6.5) * 0.8, min(rate, 6.5) * 1.2) for rate in RATES])
    slow = Line("4U", [(rate, 0.1 * rate**2, None, None) for rate in RATES])
    charts = [
        Chart(
            "Goodput", "good requests/s, by requests/s", "requests/s", "count", [good, other], turns=[(2.5, 3.0, 3.6)]
        ),
        Chart("Time to first token", "p99, by requests/s", "requests/s", "s", [slow, slow], bound=1.0),
        Chart("Output", "tokens/s", "requests/s", "count", [Line("2P2D", []), Line("4U", [])]),
    ]
    heads = ["requests/s", "2P2D", "good", "4U", "good", "difference"]
    row = ["16", "9.5±0.95", "59 %", "6.5±1.3", "41 %", "3.0±0.4", "2P2D"]
    table = TableOf("Good requests per second", [*(Column(head, True) for head in heads), Column("better")], [row] * 5)
    return Page(
        kind="Comparison",
        title="2P2D against 4U",
        verdict=SENTENCE,
        facts=[("SLO", "TTFT ≤ 1 s, ITL (p99 of a request) ≤ 60 ms"), ("Load", "300 requests each, 3 seeds")],
        note="Bars are 95 % intervals.",
        charts=charts,
        tables=[table, table],
        settings=[("2P2D", [("topology", "2P2D"), ("load.input_tokens", "normal:512,200,50-1500")]), ("4U", [])],
        warnings=["a profile's long source " * 12],
    )


def tuning() -> Page:
    points = [(0.05 * rate, min(rate, 9.0), None, None) for rate in RATES]
    lines = [
        Line(name, points, [f"{name} at {rate:g}" for rate in RATES]) for name in ("1P3D", "2P2D decode.num_slots=64")
    ]
    return Page(
        kind="Tuning",
        title="4 executors",
        verdict=SENTENCE,
        facts=[("SLO", "TTFT ≤ 1 s")],
        charts=[Chart("Goodput against TTFT", "good/s, by TTFT p99", "s", "count", lines, x_bound=1.0)],
        tables=[TableOf("Settings", [Column("settings"), Column("holds", True)], [["1P3D", "9"], ["4U", "–"]])],
        snippet="# baton up --model MODEL --prefill 1 --decode 3 --config tune.toml\n\n[decode]\nnum_slots = 64\n",
    )


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [400, 1280])
@pytest.mark.parametrize("page_of", [comparison, tuning])
async def test_everything_has_its_place(tmp_path: Path, page_of: object, width: int, scheme: str) -> None:
    made = comparison() if page_of is comparison else tuning()
    async with open_report(render(made), tmp_path, scheme, width) as page:
        assert await page.evaluate(FLAWS) == []
        contrast, text = await page.evaluate(CONTRAST)
        assert contrast >= MIN_CONTRAST, text
        assert "NaN" not in await page.inner_text("main")
        if folder := os.environ.get("BATON_PAGE_PICTURES"):
            await page.screenshot(path=f"{folder}/{made.kind}-{width}-{scheme}.png", full_page=True)


async def test_keys_read_values_without_a_pointer(tmp_path: Path) -> None:
    async with open_report(render(comparison()), tmp_path) as page:
        await page.focus(".panel:first-child svg")
        await page.keyboard.press("End")
        values = await page.locator(".panel:first-child .legend .value").all_inner_texts()
        assert values == ["9.50", "6.50"]
        assert await page.inner_text(".panel:first-child .legend .at") == "16 requests/s"
        assert await page.inner_text(".panel:nth-child(3)") != ""
        assert await page.locator(".panel:nth-child(3) svg").count() == 0


async def test_what_is_small_is_not_written_as_nothing(tmp_path: Path) -> None:
    points = [(0.0042, 0.00123, None, None), (0.5, 0.0512, None, None)]
    slow = Chart("Slow", "", "requests/s", "count", [Line("1P1D", points)])
    fields = {name: getattr(comparison(), name) for name in Page.__struct_fields__}
    async with open_report(render(Page(**fields | {"charts": [slow]})), tmp_path) as page:
        await page.focus(".panel svg")
        read = []
        for key in ("Home", "End"):
            await page.keyboard.press(key)
            read.append([await page.inner_text(f".panel .legend .{part}") for part in ("at", "value")])
        assert read == [["0.00420 requests/s", "0.00123"], ["0.50 requests/s", "0.0512"]]


async def test_points_of_a_frontier_are_read_one_by_one(tmp_path: Path) -> None:
    async with open_report(render(tuning()), tmp_path) as page:
        await page.focus(".panel svg")
        await page.keyboard.press("Home")
        assert await page.inner_text(".panel .readout") == "1P3D at 1"
        await page.keyboard.press("End")
        assert await page.inner_text(".panel .readout") == "2P2D decode.num_slots=64 at 16"
        assert "num_slots = 64" in await page.inner_text(".snippet")


async def test_texts_stay_text(tmp_path: Path) -> None:
    made = comparison()
    table = TableOf(HOSTILE, [Column(HOSTILE)], [[HOSTILE]])
    charts = [Chart(HOSTILE, HOSTILE, HOSTILE, "count", [Line(HOSTILE, [(1.0, 2.0, None, None)], [HOSTILE])])]
    fields = {name: getattr(made, name) for name in made.__struct_fields__}
    hostile = Page(
        **fields | {"title": HOSTILE, "verdict": HOSTILE, "charts": charts, "tables": [table], "snippet": HOSTILE}
    )
    async with open_report(render(hostile), tmp_path, width=400) as page:
        assert await page.locator("h1").text_content() == HOSTILE
        assert await page.evaluate("window.ran") is None
        assert await page.locator("img").count() == 0
