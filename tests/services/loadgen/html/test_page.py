"""The page's text: it is one file, it carries the report, and nothing of the data can break out of it."""

from __future__ import annotations

import base64
import hashlib
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from baton.core.metrics.definitions import UNITS
from baton.core.metrics.facts import Failure, RequestFacts
from baton.core.metrics.goodput import Slo
from baton.core.metrics.report import decode_report, encode_report
from baton.services.loadgen.html import render
from baton.services.loadgen.html.terms import BOUNDS, FIGURES, OF_A_RUN
from tests.services.loadgen.html.runs import report_of, requests

ROOT = Path(__file__).resolve().parents[4]
HOSTILE = '</script><script>window.ran = 1</script><!--<img src=x onerror="window.ran = 1">&amp;\u2028'


def data_of(text: str) -> Any:
    found = re.findall(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)
    assert len(found) == 1
    return msgspec.json.decode(found[0])


def test_the_report_is_in_the_page_as_it_was_written() -> None:
    facts = requests(60)
    report = report_of(facts)
    (point,) = data_of(render([report], [facts]))["points"]
    assert decode_report(msgspec.json.encode(point["report"])) == decode_report(encode_report(report))


def test_of_a_sweep_every_report_is_there() -> None:
    runs = [requests(20, rate) for rate in (2.0, 4.0, 8.0)]
    reports = [report_of(facts, label=f"rate={number}") for number, facts in enumerate(runs)]
    points = data_of(render(reports, runs))["points"]
    assert [point["report"]["label"] for point in points] == ["rate=0", "rate=1", "rate=2"]


def test_texts_of_others_cannot_end_the_element_that_holds_them() -> None:
    facts = [RequestFacts(index=0, scheduled_s=0.0, done_s=1.0, failure=Failure.ERROR_EVENT, detail=HOSTILE)]
    report = report_of(facts, warnings=(HOSTILE,), label=HOSTILE)
    run = msgspec.structs.replace(report.run, model=HOSTILE, target=HOSTILE, settings={HOSTILE: HOSTILE})
    text = render([msgspec.structs.replace(report, run=run)], [facts])
    ordinary = render([report_of(requests(3))], [requests(3)])
    for mark in ("<script", "</script", "<!--", "<img"):
        assert text.count(mark) == ordinary.count(mark), mark
    assert data_of(text)["points"][0]["shapes"]["failed"][0]["detail"] == HOSTILE


def test_only_its_own_style_and_script_may_run_and_nothing_may_load() -> None:
    text = render([report_of(requests(3))], [requests(3)])
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', text)
    assert policy is not None
    rules = dict(rule.split(" ", 1) for rule in policy[1].split("; "))
    assert rules["default-src"] == "'none'"
    for name, pattern in (
        ("style-src", r"<style>(.*?)</style>"),
        ("script-src", r'<script type="module">(.*?)</script>'),
    ):
        inside = re.search(pattern, text, re.DOTALL)
        assert inside is not None
        digest = base64.b64encode(hashlib.sha256(inside[1].encode()).digest()).decode()
        assert rules[name] == f"'sha256-{digest}'"
    for sign in ("https://", "innerHTML", "import(", "fetch(", "url(", "@import"):
        assert sign not in text, sign


def test_the_title_names_the_model_if_there_is_one() -> None:
    report = report_of([])
    nameless = msgspec.structs.replace(report, run=msgspec.structs.replace(report.run, model=""))
    assert "<title>example/some-model-0.6b: load report</title>" in render([report], [[]])
    assert "<title>load report</title>" in render([nameless], [[]])


def test_without_a_report_or_with_facts_of_another_number_there_is_no_page() -> None:
    with pytest.raises(ValueError, match="at least one report"):
        render([], [])
    with pytest.raises(ValueError, match="shorter"):
        render([report_of([])], [])


def test_definitions_are_those_of_the_documentation() -> None:
    """Each stands in its row of the tables, word for word."""
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in (ROOT / "docs/metrics.md").read_text().splitlines()
        if line.startswith("|")
    ]
    of_requests = {row[0].strip("`"): row[2] for row in rows if row[0].startswith("`")}
    of_runs = {row[0]: row[2] for row in rows if len(row) == 3}
    assert list(FIGURES) == list(UNITS)
    assert {name: term.definition for name, term in FIGURES.items()} == {name: of_requests[name] for name in UNITS}
    assert {name: of_runs[name] for name in OF_A_RUN} == OF_A_RUN
    assert tuple(BOUNDS) == Slo.__struct_fields__
