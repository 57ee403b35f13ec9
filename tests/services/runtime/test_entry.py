"""From a command line to a running service: what does not allow a start is told in one line, and to who started it."""

from __future__ import annotations

from pathlib import Path

import pytest

from baton.core.errors import Incompatible
from baton.core.ids import Role
from baton.services.runtime.entry import run_role
from baton.services.runtime.lifecycle import EXIT_REFUSED, Lifecycle
from baton.services.runtime.refusal import read_refusal
from baton.services.runtime.settings import Settings


async def refuse(life: Lifecycle, settings: Settings) -> None:
    raise Incompatible("the layouts differ")


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        ("--run-folder {}/nowhere", "service.run_folder = '{}/nowhere': no such folder"),
        ("--run-folder {}/file", "service.run_folder = '{}/file': no such folder"),
        ("--journal-folder {}/file", "service.journal_folder = '{}/file': File exists"),
        ("--journal-folder {}/file/journal", "service.journal_folder = '{}/file/journal': Not a directory"),
    ],
)
def test_a_folder_that_cannot_be_written_ends_the_start_by_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], flags: str, told: str
) -> None:
    (tmp_path / "file").touch()
    given = ["--keys", "k", *flags.format(tmp_path).split()]
    assert run_role(Role.SCHEDULER, refuse, given) == EXIT_REFUSED
    assert capsys.readouterr().err == f"baton scheduler: {told.format(tmp_path)}\n"


def test_a_refused_start_leaves_its_reason_in_the_run_folder(tmp_path: Path) -> None:
    assert read_refusal(tmp_path, "scheduler") == ""
    assert run_role(Role.SCHEDULER, refuse, ["--keys", "k", "--run-folder", str(tmp_path)]) == EXIT_REFUSED
    assert read_refusal(tmp_path, "scheduler") == "the layouts differ"
