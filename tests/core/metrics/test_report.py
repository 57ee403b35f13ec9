"""The report's file and the facts beside it: what is written is read, and what is broken says where."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from baton.core.metrics.compat import Tool, compat
from baton.core.metrics.executors import ExecutorUse
from baton.core.metrics.facts import Failure
from baton.core.metrics.goodput import Slo
from baton.core.metrics.over_time import over_time
from baton.core.metrics.report import (
    FORMAT_VERSION,
    BadReport,
    comparable,
    decode_facts,
    decode_report,
    encode_facts,
    encode_report,
    fingerprint,
)
from baton.core.metrics.summary import summarize
from tests.core.metrics.stub import a_report, failed, fixed_schedule, renumbered, requests


@given(st.lists(requests(), max_size=5), st.sampled_from(Failure))
def test_a_report_is_read_as_it_was_written(drawn, failure):
    rows = renumbered([*drawn, failed(failure)])
    report = msgspec.structs.replace(
        a_report(rows),
        summary=summarize(rows, slo=Slo(ttft_s=0.5, e2e_s=3.0)),
        compat=tuple(compat(tool, rows) for tool in Tool),
        server_series={"queue_depth": ((0.0, 3.0), (1.0, 4.0))},
        warnings=("slow",),
        notes=("of two machines",),
        executors=(ExecutorUse(name="decode-0", num_steps=3, busy_share=0.5, kv_bytes=7),),
    )
    read = decode_report(encode_report(report))
    assert encode_report(read) == encode_report(report)
    assert (read.summary, read.series, read.compat) == (report.summary, report.series, report.compat)


def test_a_report_of_before_there_were_notes_and_executors_is_read():
    told = msgspec.json.decode(encode_report(a_report([fixed_schedule()])))
    for name in ("notes", "executors"):
        del told[name]
    del told["summary"]["rate"]["what"]
    read = decode_report(msgspec.json.encode(told))
    assert (read.notes, read.executors, read.summary.rate.what) == ((), (), "requests")


@given(st.lists(requests(), max_size=5), st.sampled_from(Failure))
def test_facts_are_read_as_they_were_written_one_a_line(drawn, failure):
    rows = renumbered([*drawn, failed(failure, detail='a "line"\nand another')])
    lines = encode_facts(rows).splitlines()
    assert len(lines) == len(rows)
    assert list(decode_facts(lines)) == rows


@pytest.mark.parametrize("version", [FORMAT_VERSION + 1, 0])
def test_another_version_is_said_before_anything_else_is_looked_at(version):
    with pytest.raises(BadReport, match=f"format {version}, this program reads {FORMAT_VERSION}") as caught:
        decode_report(msgspec.json.encode({"format_version": version, "summary": "of another shape"}))
    assert caught.value.field == "format_version"


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ((b'"failed": 0', b'"failed": "none"'), "summary.counts.failed"),
        ((b'"seed": 7', b'"seed": null'), "run.seed"),
        ((b'"model"', b'"mode"'), "run"),
        ((b'"format_version": 1', b'"format": 1'), ""),
    ],
)
def test_what_is_broken_in_a_report_is_named(change, field):
    data = encode_report(a_report([fixed_schedule()]))
    assert change[0] in data
    with pytest.raises(BadReport) as caught:
        decode_report(data.replace(*change))
    assert (caught.value.line, caught.value.field) == (0, field)


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b'{"format_version": "\xff"}', b"\xff\xfe"])
def test_what_is_no_report_is_refused(data):
    with pytest.raises(BadReport):
        decode_report(data)


@pytest.mark.parametrize(
    ("line", "field"),
    [
        (b'{"index":3,"scheduled_s":"soon"}', "scheduled_s"),
        (b'{"index":3}', ""),
        (b'{"index":3,"scheduled_s":0.5,"chunks":[[0.1,"five"]]}', "chunks[0][1]"),
        (b'{"index":3,"scheduled_s":0.5,"failure":"bored"}', "failure"),
        (b'{"index":3,"sched', ""),
        (b'{"index":3,"detail":"\xff","scheduled_s":1}', ""),
        (b'{"index":1,"scheduled_s":0.5}', "index"),
    ],
)
def test_a_broken_line_is_named_and_those_before_it_are_read(line, field):
    rows = renumbered([fixed_schedule(), fixed_schedule()])
    stream = decode_facts([*encode_facts(rows).splitlines(), b"", line])
    assert [next(stream), next(stream)] == rows
    with pytest.raises(BadReport, match="line 4") as caught:
        next(stream)
    assert (caught.value.line, caught.value.field) == (4, field)


def test_reports_of_one_machine_load_and_model_are_comparable():
    rows = [fixed_schedule()]
    mine = a_report(rows)
    assert comparable(mine, a_report(rows, versions={"baton": "9"}, target="http://other", began_at="later")) == ()
    assert comparable(mine, decode_report(encode_report(mine))) == ()


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"machine": {"cpu": "64 cores", "gpu": "one"}}, "machines differ: cpu, gpu"),
        ({"settings": {"rate": 8.0, "lengths": [16, 21]}}, "settings differ: rate"),
        ({"model": "large"}, "models differ: tiny and large"),
        ({"plan_fingerprint": "0"}, "loads differ: the plans are not the same"),
    ],
)
def test_ldg_04_boards_of_other_machines_settings_models_or_loads_are_not_compared_silently(changes, reason):
    rows = [fixed_schedule()]
    assert comparable(a_report(rows), a_report(rows, **changes)) == (reason,)


def test_ldg_04_a_degraded_run_is_not_compared_silently():
    late = [fixed_schedule(scheduled_s=-1.0)]
    assert comparable(a_report([fixed_schedule()]), a_report(late)) == (
        "the second is degraded: schedule lag p99 of the client is 1000.0 ms, limit 50.0 ms",
    )


def test_an_absent_setting_is_not_one_that_is_null():
    rows = [fixed_schedule()]
    assert comparable(a_report(rows, settings={"cap": None}), a_report(rows, settings={})) == ("settings differ: cap",)


def test_fingerprints_are_of_the_bytes():
    assert fingerprint(b"plan") == fingerprint(b"plan") != fingerprint(b"plam")
    assert len(fingerprint(b"")) == 32


def test_series_and_summary_of_a_report_agree():
    rows = [fixed_schedule()]
    assert a_report(rows).series == over_time(rows)
