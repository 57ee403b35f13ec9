"""`baton bench compare`: which two runs it takes, and what it ends with."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from baton.core.metrics.compare import NotComparable
from baton.core.metrics.report import encode_facts
from baton.services.loadgen.__main__ import main as bench
from baton.services.loadgen.bench_settings import RunSettings
from baton.services.loadgen.comparing import main, read_run
from baton.services.loadgen.content import ContentSettings
from baton.services.loadgen.load_errors import BadLoad
from baton.services.loadgen.results import make_report, write_report
from tests.services.loadgen.test_results import FACTS, measured, options, target


def write(folder: Path, text: str = "a", salt: str = "", slo: str = "", num: int = 1) -> str:
    folder.mkdir()
    rows = [msgspec.structs.replace(FACTS, index=index) for index in range(num)]
    run = measured(text=text, content=ContentSettings(salt=salt))._replace(facts=rows)
    write_report(folder, make_report(run, target(), options(run=RunSettings(slo=slo))))
    (folder / "requests.jsonl").write_bytes(encode_facts(rows))
    return str(folder)


def test_runs_of_one_load_are_compared_whatever_their_words(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first, second = write(tmp_path / "a", salt="1"), write(tmp_path / "b", salt="2")
    assert main([first, second]) == 0
    said = capsys.readouterr().out
    assert f"1: {first}\n2: {second}\n1 requests succeeded in both" in said
    assert "not alike" not in said


def test_other_settings_are_said_and_end_with_1_unless_that_was_asked_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folders = [write(tmp_path / "a"), write(tmp_path / "b", slo="ttft=1s")]
    assert main(folders) == 1
    assert "not alike: settings differ: slo\n" in capsys.readouterr().out
    assert main([*folders, "--unlike"]) == 0


def test_other_loads_are_not_compared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folders = [write(tmp_path / "a"), write(tmp_path / "b", text="other")]
    with pytest.raises(NotComparable):
        main(folders)
    assert bench(["compare", *folders]) == 2
    assert capsys.readouterr().err.startswith("baton bench: the two runs have different plans")


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    write(tmp_path / "a")
    assert msgspec.structs.asdict(read_run(tmp_path / "a").report)["label"] == ""
    with pytest.raises(BadLoad, match=r"none/report\.json: No such file"):
        read_run(tmp_path / "none")
    (tmp_path / "a" / "requests.jsonl").write_bytes(encode_facts([FACTS]) + b"{\n")
    with pytest.raises(BadLoad, match=r"requests\.jsonl: line 2: "):
        read_run(tmp_path / "a")
    (tmp_path / "a" / "report.json").write_text("[]")
    with pytest.raises(BadLoad, match=r"report\.json: "):
        read_run(tmp_path / "a")


def test_lost_records_end_with_1_and_nothing_in_common_with_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folders = [write(tmp_path / name, num=2) for name in "ab"]
    assert main(folders) == 0
    records = tmp_path / "b" / "requests.jsonl"
    records.write_bytes(records.read_bytes().splitlines(keepends=True)[0])
    assert (main(folders), main([*folders, "--unlike"])) == (1, 1)
    assert "not whole: the records of the second hold 1 of its 2 requests\n" in capsys.readouterr().out
    records.write_bytes(b"")
    assert bench(["compare", *folders]) == 2
    said = capsys.readouterr().err
    assert said.startswith("baton bench: nothing to compare: no request succeeded in both (2 in the first, 0 in the")
    assert said.endswith("; the records of the second hold 0 of its 2 requests\n")


def test_of_a_sweep_the_runs_are_named(tmp_path: Path) -> None:
    (tmp_path / "s").mkdir()
    points = [write(tmp_path / "s" / f"rate={rate}") for rate in (1, 2)]
    with pytest.raises(
        BadLoad, match=rf"^the folder .*s holds a sweep; its runs can be compared: {', '.join(points)}$"
    ):
        read_run(tmp_path / "s")
    assert main([points[0], points[0]]) == 0
