"""The admin endpoint, the log and the metrics of a running driver."""

from __future__ import annotations

import asyncio
import io
from typing import Any

from aiohttp import ClientSession

from baton.core.errors import Reason
from baton.core.events import Note, Span
from baton.core.metrics.histogram import Histogram
from baton.services.runtime.admin import AdminPages
from baton.services.runtime.driver import Driver
from baton.services.runtime.log import LINES_PER_SECOND, Log
from baton.services.runtime.metrics import MAX_KINDS, Distribution, Metrics, Row
from tests.support.loops import run_on_uvloop


class Idle:
    next_wake: float | None = None

    def handle(self, event: Any, now: float) -> list[Any]:
        return []


async def get(port: int, path: str) -> tuple[int, str]:
    async with ClientSession() as session, session.get(f"http://127.0.0.1:{port}{path}") as answer:
        return answer.status, await answer.text()


def test_health_ready_and_metrics_say_what_is() -> None:
    async def story() -> None:
        driver = Driver(Idle(), asyncio.get_running_loop(), lambda error: None)
        metrics = Metrics()
        metrics.add_gauges(lambda: {"free_blocks": 12.0})
        metrics.add_rows(lambda: [Row("steps", {"batch": "2"}, 5.0), Row("steps", {"batch": "4"}, 7.0)])
        metrics.count(Note("placed", reason=Reason.NO_SLOT))
        why = ["no executor"]
        runner, port = await AdminPages(driver, metrics, lambda: why[0]).start(0)
        assert await get(port, "/health") == (200, '{"healthy":true,"reason":""}')
        assert await get(port, "/ready") == (503, '{"ready":false,"reason":"no executor"}')
        why[0] = ""
        assert await get(port, "/ready") == (200, '{"ready":true,"reason":""}')
        text = (await get(port, "/metrics"))[1]
        assert "baton_free_blocks 12.0" in text
        assert 'baton_steps_total{batch="2"} 5.0\nbaton_steps_total{batch="4"} 7.0' in text
        assert 'baton_notes_total{reason="NO_SLOT",what="placed"} 1.0' in text
        await runner.cleanup()

    run_on_uvloop(story())


def test_a_node_that_takes_no_turns_is_not_healthy() -> None:
    async def story() -> None:
        driver = Driver(Idle(), asyncio.get_running_loop(), lambda error: None)
        driver.stop()
        pages = AdminPages(driver, Metrics(), lambda: "")
        runner, port = await pages.start(0)
        assert (await get(port, "/health"))[0] == 503
        await runner.cleanup()

    run_on_uvloop(story())


def test_no_peer_can_grow_the_table_of_notes_without_bound() -> None:
    metrics = Metrics()
    for index in range(MAX_KINDS + 50):
        metrics.count(Note(f"kind {index}"))
    assert b'what="other"} 50.0' in metrics.text()


def test_a_log_line_is_one_line_whatever_is_in_it() -> None:
    stream = io.StringIO()
    log = Log("decode", 7, stream)
    log.warn('a "b"\nlevel=error', detail="x y", empty="", number=1.5)
    log.note(Note("ended", request_id=3, attempt=1, reason=Reason.ABORTED, numbers={"queued_ms": 2.0}))
    first, second = stream.getvalue().splitlines()
    assert first.endswith('what="a \\"b\\"\\nlevel=error" detail="x y" empty="" number=1.5')
    assert second.endswith("service=decode epoch=7 what=ended request=3 attempt=1 reason=ABORTED queued_ms=2")


def test_a_flood_of_lines_is_cut_and_errors_are_not() -> None:
    stream = io.StringIO()
    log = Log("decode", 7, stream)
    for _ in range(20 * LINES_PER_SECOND):
        log.info("again")
    assert stream.getvalue().count("what=again") < 10 * LINES_PER_SECOND
    for _ in range(2 * LINES_PER_SECOND):
        log.error("broken")
    assert stream.getvalue().count("what=broken") == 2 * LINES_PER_SECOND


def test_c14_what_lasted_is_counted_and_timed_by_what_it_was_why_and_what_ended_it() -> None:
    metrics = Metrics()
    metrics.count_span(Span("hold", 1.0, 1.25, Reason.HELD, 2.0, "fill"))
    metrics.count_span(Span("hold", 3.0, 3.5, Reason.HELD, 4.0, "fill"))
    metrics.count_span(Span("hold", 5.0, 6.0, Reason.HELD, 6.0, "deadline"))
    metrics.add_distributions(lambda: [Distribution("turn_seconds", {"event": "Wake"}, Histogram())])
    text = metrics.text().decode()
    assert 'baton_span_seconds_count{ended_by="fill",reason="HELD",what="hold"} 2.0' in text
    assert 'baton_span_seconds_sum{ended_by="fill",reason="HELD",what="hold"} 0.75' in text
    assert 'baton_span_seconds_count{ended_by="deadline",reason="HELD",what="hold"} 1.0' in text
    assert 'baton_turn_seconds_bucket{event="Wake",le="+Inf"} 0.0' in text


def test_no_peer_can_grow_the_table_of_spans_without_bound() -> None:
    metrics = Metrics()
    for index in range(MAX_KINDS + 50):
        metrics.count_span(Span(f"kind {index}", 0.0, 1.0))
    assert b'what="other"} 50.0' in metrics.text()
