"""From facts to the files of a run's folder."""

from __future__ import annotations

import csv
from pathlib import Path

import msgspec
import pytest

from baton.core.metrics.facts import Chunk, RequestFacts
from baton.core.metrics.report import decode_report
from baton.services.loadgen.bench_settings import RunSettings, TargetSettings
from baton.services.loadgen.content import ContentKind, ContentSettings
from baton.services.loadgen.load_errors import BadLoad
from baton.services.loadgen.load_settings import LoadSettings
from baton.services.loadgen.options import Options
from baton.services.loadgen.plan import Plan, PlannedRequest
from baton.services.loadgen.results import (
    Measured,
    check_folder,
    make_report,
    point_folder,
    write_report,
)
from baton.services.loadgen.run import RunOutcome
from baton.services.loadgen.server_metrics import Sample
from baton.services.loadgen.target import Endpoint, Target

FACTS = RequestFacts(
    index=0,
    scheduled_s=0.0,
    dispatched_s=0.0,
    sent_s=0.0,
    chunks=(Chunk(0.5, 3), Chunk(1.0, 3)),
    done_s=1.0,
    status=200,
    num_input_tokens=4,
    num_output_tokens=2,
    finish_reason="stop",
)
METRICS_FAILURES = {"num_metrics_failures": 3, "first_metrics_failure": "404"}
SAMPLES = (Sample(time_s=0.1, num_queued=2.0), Sample(time_s=1.1, num_queued=0.0, kv_use=0.5))


def measured(label: str = "", text: str = "", content: ContentSettings | None = None, **outcome: object) -> Measured:
    plan = Plan(requests=(PlannedRequest(index=0, text=text, max_tokens=2, num_input_tokens=4),), seed=0)
    plain = {"was_interrupted": False, "broken": "", "records_failure": "", "started_at": 0.0}
    ended = RunOutcome(**{**plain, **outcome})
    return Measured(label, plan, content or ContentSettings(salt="ab"), [FACTS], ended, SAMPLES)


def options(load: LoadSettings | None = None, run: RunSettings | None = None) -> Options:
    return Options(TargetSettings(), load or LoadSettings(), run or RunSettings())


def target(**fields: object) -> Target:
    return Target(**{"url": "http://h", "model": "m", **fields})


def test_a_report_holds_what_differs_from_the_defaults_and_of_files_the_name() -> None:
    asked = options(LoadSettings(trace="/home/me/t.jsonl", seed=3), RunSettings(slo="ttft=1s", out="/tmp/x"))
    report = make_report(measured("rate=2"), target(), asked)
    assert report.run.settings == {"trace": "t.jsonl", "seed": 3, "slo": "ttft=1s", "point": "rate=2"}
    assert (report.label, report.run.seed, report.run.salt, report.run.began_at) == (
        "rate=2",
        3,
        "ab",
        "1970-01-01T00:00:00Z",
    )
    assert report.summary.goodput is not None
    assert report.summary.goodput.num_good == 1


def test_what_the_server_said_of_itself_is_a_series_for_each_figure_that_it_said() -> None:
    report = make_report(measured(), target(), options())
    assert report.server_series == {"num_queued": ((0.1, 2.0), (1.1, 0.0)), "kv_use": ((1.1, 0.5),)}


def test_metrics_that_say_nothing_of_queue_and_memory_are_noted() -> None:
    for samples, num_notes in (((Sample(time_s=0.1),), 1), ((), 0), (SAMPLES, 0)):
        report = make_report(measured(text="a")._replace(samples=samples), target(), options())
        assert ["neither its queue nor its KV use" in text for text in report.warnings] == [True] * num_notes


def test_lengths_that_may_not_be_those_asked_for_are_said() -> None:
    assumed = "prompts without --tokenizer: each word is taken for one token"
    ids = ContentSettings(kind=ContentKind.TOKENS)
    assert make_report(measured(), target(), options()).warnings == (assumed,)
    assert make_report(measured(text="hi"), target(), options()).warnings == ()
    assert make_report(measured(content=ids), target(), options()).warnings == ()
    answers = make_report(measured(content=ids), target(endpoint=Endpoint.RESPONSES), options()).warnings
    assert len(answers) == 1
    assert "cannot be asked for exact lengths" in answers[0]
    in_one_piece = make_report(measured(content=ids), target(is_streamed=False), options()).warnings
    assert in_one_piece == ("answers were asked for in one piece: TTFT, TPOT and ITL are not known",)
    may_stop = target(endpoint=Endpoint.RESPONSES, ignore_eos=False)
    assert make_report(measured(content=ids), may_stop, options()).warnings == ()


def test_what_is_left_out_of_a_trace_is_said() -> None:
    run = measured(text="a")
    run = run._replace(plan=msgspec.structs.replace(run.plan, num_left_out=7))
    assert make_report(run, target(), options()).warnings == (
        "7 requests of the trace are left out: they need too many tokens",
    )


def test_what_went_wrong_in_a_run_is_in_its_report() -> None:
    run = measured(text="a", was_interrupted=True, broken="b", records_failure="r", **METRICS_FAILURES)
    first, *rest = make_report(run, target(), options()).warnings
    assert first.startswith("the run was interrupted")
    assert rest == ["b", "r", "the server's metrics could not be read 3 times, first: 404"]


def test_files_are_a_report_and_a_table(tmp_path: Path) -> None:
    report = make_report(measured(), target(), options())
    write_report(tmp_path, report)
    assert decode_report((tmp_path / "report.json").read_bytes()) == report
    with (tmp_path / "summary.csv").open(newline="") as file:
        rows = list(csv.reader(file))
    assert rows[0] == ["figure", "unit", "statistic", "value"]
    assert ["ttft_s", "s", "p50", "0.5"] in rows
    assert sorted(path.name for path in tmp_path.iterdir()) == ["report.json", "summary.csv"]


@pytest.mark.parametrize("name", ["report.json", "summary.csv", "requests.jsonl", "report.html"])
def test_a_folder_with_any_file_of_a_run_is_not_taken(name: str, tmp_path: Path) -> None:
    check_folder(tmp_path / "new")
    (tmp_path / name).touch()
    check_folder(tmp_path)  # of a run that could not begin
    (tmp_path / name).write_text("x")
    with pytest.raises(BadLoad, match=f"already holds a run \\({name}\\)"):
        check_folder(tmp_path)


def test_points_of_a_sweep_lie_in_folders_of_their_own() -> None:
    assert point_folder(Path("a"), "") == Path("a")
    assert point_folder(Path("a"), "rate=0.5") == Path("a/rate=0.5")
