"""The folder of a run's files: taken by one at a time, and its files written whole."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from baton.services.loadgen.load_errors import BadLoad
from baton.services.loadgen.out_folder import taken, write_all, write_whole

NAMES = ("report.json", "requests.jsonl")


def test_a_folder_is_made_and_is_one_runs_at_a_time(tmp_path: Path) -> None:
    out = str(tmp_path / "a" / "b")
    with taken(out, NAMES, "run") as folder:
        assert folder == tmp_path / "a" / "b"
        assert folder.is_dir()
        with pytest.raises(BadLoad, match="another run is writing to"), taken(out, NAMES, "run"):
            pass
        with taken(str(tmp_path / "a"), NAMES, "run"):
            pass
    assert list(folder.iterdir()) == []
    with taken(out, NAMES, "run"):
        pass


def test_without_a_name_there_is_no_folder() -> None:
    with taken("", NAMES, "run") as folder:
        assert folder is None


def test_what_a_folder_holds_already_is_not_lost(tmp_path: Path) -> None:
    (tmp_path / "requests.jsonl").write_text("x")
    with pytest.raises(BadLoad, match="already holds a study"), taken(str(tmp_path), NAMES, "study"):
        pass


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    for path in (file, file / "below"):
        with pytest.raises(NotADirectoryError) as caught, taken(str(path), NAMES, "run"):
            pass
        assert caught.value.filename == str(path)


@pytest.mark.skipif(os.getuid() == 0, reason="root may write everywhere")
def test_a_folder_that_cannot_be_written_to_is_named(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(PermissionError) as caught, taken(str(tmp_path), NAMES, "run"):
        pass
    assert caught.value.filename == str(tmp_path)


def test_a_file_that_cannot_be_written_leaves_the_ones_before_and_no_draft(tmp_path: Path) -> None:
    path = tmp_path / "a"
    write_whole(path, b"before")
    (tmp_path / "b.new").symlink_to("/dev/full")
    with pytest.raises(OSError, match="No space left") as caught:
        write_all(tmp_path, [("a", b"after"), ("b", b"after"), ("c", b"after")])
    assert caught.value.filename == str(tmp_path / "b")
    assert path.read_bytes() == b"before"
    assert list(tmp_path.iterdir()) == [path]
    write_all(tmp_path, [("a", b"after"), ("b", b"after")])
    assert [(tmp_path / name).read_bytes() for name in "ab"] == [b"after"] * 2
