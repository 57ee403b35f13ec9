"""The traces that ship with the package."""

from __future__ import annotations

from pathlib import Path

import pytest

from baton.services.loadgen.traces.reading import format_of, path_of, read_trace, samples
from baton.services.loadgen.traces.records import Limits, TraceFormat, TraceRecord
from tools import sample_traces


def records(name: str) -> list[TraceRecord]:
    return list(read_trace(path_of(name), TraceFormat.AUTO, Limits()))


def test_they_are_what_their_script_makes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sample_traces, "FOLDER", tmp_path)
    sample_traces.main()
    assert samples() == sorted(path.stem for path in tmp_path.iterdir())
    for name in samples():
        assert path_of(name).read_bytes() == (tmp_path / f"{name}.jsonl").read_bytes()


def test_the_chats_share_prefixes_and_repeat_what_was_said() -> None:
    assert format_of(path_of("sample")) is TraceFormat.MOONCAKE
    found = records("sample")
    assert len(found) == sample_traces.NUM_REQUESTS
    times = [each.at_s or 0.0 for each in found]
    assert times == sorted(times)
    firsts = [each.blocks[0].first for each in found]
    assert {firsts.count(first) > 20 for first in (0, 100, 200)} == {True}
    seen: set[int] = set()
    num_known = num_blocks = 0
    for each in found:
        ids = {run.first + place for run in each.blocks for place in range(run.count)}
        num_known, num_blocks = num_known + len(ids & seen), num_blocks + len(ids)
        seen |= ids
    assert 0.6 < num_known / num_blocks < 0.95


def test_the_sessions_have_turns_that_wait_think_times_and_subagents() -> None:
    assert format_of(path_of("sample-sessions")) is TraceFormat.AGENTIC
    found = records("sample-sessions")
    assert len({each.session_number for each in found}) == sample_traces.NUM_SESSIONS
    assert any("/agent-" in each.session for each in found)
    later = [each for each in found if each.after is not None]
    assert len(later) > len(found) / 2
    assert any(each.think_s > 1 for each in later)


def test_any_other_name_is_a_path() -> None:
    assert path_of("traces/sample") == Path("traces/sample")
