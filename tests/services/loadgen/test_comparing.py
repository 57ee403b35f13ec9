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


def write(folder: Path, text: str = "a", salt: str = "", slo: str = "") -> str:
    folder.mkdir()
    run = measured(text=text, content=ContentSettings(salt=salt))
    write_report(folder, make_report(run, target(), options(run=RunSettings(slo=slo))))
    (folder / "requests.jsonl").write_bytes(encode_facts([FACTS]))
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
