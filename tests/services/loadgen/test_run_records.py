"""Per-request records: whole lines of what was measured, whatever the disk does."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import msgspec
import pytest

from baton.core.metrics.facts import Chunk, Failure, RequestFacts
from baton.services.loadgen.run_records import Records

FACTS = [
    RequestFacts(index=0, scheduled_s=0.5, chunks=(Chunk(1.0, 3, 2), Chunk(2.0, 4))),
    RequestFacts(index=1, scheduled_s=0.5, failure=Failure.LOST, detail="reset"),
]


def read(path: Path) -> list[RequestFacts]:
    return msgspec.json.Decoder(RequestFacts).decode_lines(path.read_bytes())


def test_records_are_on_disk_as_soon_as_they_were_told(tmp_path: Path) -> None:
    records = Records(tmp_path / "r.jsonl")
    records.add(FACTS[:1])
    assert read(records.path) == FACTS[:1]
    records.add(FACTS[1:])
    assert read(records.path) == FACTS
    records.close()
    assert records.failure == ""


def test_a_disk_that_is_full_leaves_whole_lines_and_one_cause(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    records = Records(tmp_path / "r.jsonl")
    records.add(FACTS)
    write = os.write
    left = [20, 0]

    def full(file: int, data: bytes) -> int:
        room = left.pop(0)
        if not room:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write(file, bytes(data)[:room])

    monkeypatch.setattr(os, "write", full)
    records.add(FACTS)
    monkeypatch.undo()
    records.add(FACTS)
    records.close()
    assert read(records.path) == FACTS
    assert records.failure.endswith("r.jsonl: No space left on device; it holds the first 2 requests that ended")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="the device that is always full")
def test_a_device_that_is_full_is_told_and_raises_nothing() -> None:
    records = Records(Path("/dev/full"))
    records.add(FACTS)
    records.close()
    assert records.failure.startswith("/dev/full: No space left on device")


def test_a_file_that_cannot_be_made_is_an_error_at_once(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No such file"):
        Records(tmp_path / "none" / "r.jsonl")
