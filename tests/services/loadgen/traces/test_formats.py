"""Each format of a trace, read from small files: what becomes of a line, and what is said of a broken one."""

from __future__ import annotations

import gzip
import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from baton.services.loadgen.load_errors import BadLoad, BadTrace
from baton.services.loadgen.plan import BlockRun
from baton.services.loadgen.traces.reading import format_of, read_trace
from baton.services.loadgen.traces.records import Limits, TraceFormat, TraceRecord, first_blocks, runs_of

MOONCAKE = '{"timestamp": 1500, "input_length": 900, "output_length": 7, "hash_ids": [0, 14, 15]}\n'
AZURE = (
    "TIMESTAMP,ContextTokens,GeneratedTokens\r\n2023-11-16 18:17:03.9799600,4808,10\r\n2023-11-16 18:17:05.9799600,3,8"
)


def turn(t: float, keep: int, new: list[list[int]], kind: str = "n", **more: Any) -> dict[str, Any]:
    return {"t": t, "type": kind, "in": 100, "out": 5, "stop": "", "keep": keep, "new": new, **more}


def session(*requests: dict[str, Any], name: str = "s") -> dict[str, Any]:
    return {"id": name, "block_size": 64, "requests": list(requests)}


def read(
    tmp_path: Path, text: str, limits: Limits | None = None, kind: TraceFormat = TraceFormat.AUTO
) -> list[TraceRecord]:
    path = tmp_path / "trace"
    path.write_text(text, encoding="utf-8")
    return list(read_trace(path, kind, limits or Limits()))


def read_sessions(tmp_path: Path, *sessions: dict[str, Any], limits: Limits | None = None) -> list[TraceRecord]:
    return read(tmp_path, "\n".join(map(json.dumps, sessions)), limits)


def blocks_of(record: TraceRecord) -> list[int]:
    return [block for run in record.blocks for block in range(run.first, run.first + run.count)]


@given(st.lists(st.integers(0, 30)), st.integers(0, 40))
def test_runs_hold_the_same_blocks_in_the_same_order_and_are_as_few_as_can_be(ids: list[int], count: int) -> None:
    runs = runs_of(ids)
    assert [block for run in runs for block in range(run.first, run.first + run.count)] == ids
    assert len(runs) == bool(ids) + sum(after != before + 1 for before, after in pairwise(ids))
    kept = first_blocks(runs, count)
    assert [block for run in kept for block in range(run.first, run.first + run.count)] == ids[:count]


def test_a_line_of_mooncake(tmp_path: Path) -> None:
    (record,) = read(tmp_path, MOONCAKE)
    assert record == TraceRecord(
        at_s=1.5, num_input_tokens=900, max_tokens=7, blocks=(BlockRun(0, 1), BlockRun(14, 2)), block_size=512
    )


def test_rows_of_azure_count_time_from_the_first(tmp_path: Path) -> None:
    assert read(tmp_path, AZURE) == [
        TraceRecord(at_s=0.0, num_input_tokens=4808, max_tokens=10),
        TraceRecord(at_s=2.0, num_input_tokens=3, max_tokens=8),
    ]


def test_prompts_are_kept_as_they_are(tmp_path: Path) -> None:
    messages = '[{"role":"user",  "content":[{"type":"text","text":"ü"}]}]'
    records = read(tmp_path, f'{{"prompt": "Hi", "max_tokens": 3, "id": 9}}\n\n{{"messages": {messages}}}\n')
    assert records == [TraceRecord(text="Hi", max_tokens=3), TraceRecord(messages_json=messages)]


def test_turns_keep_the_blocks_of_the_one_before_and_wait_for_its_end(tmp_path: Path) -> None:
    first, second, third = read_sessions(
        tmp_path,
        session(
            turn(0, 0, [[1, 4]], api_time=3.0, think_time=0.0),
            turn(9, 3, [[5, 2], [9, 1]], api_time=2.0, think_time=5.5),
            turn(20, 6, [], "s"),
        ),
    )
    assert [blocks_of(record) for record in (first, second, third)] == [
        [1, 2, 3, 4],
        [1, 2, 3, 5, 6, 9],
        [1, 2, 3, 5, 6, 9],
    ]
    assert (first.after, second.after, third.after) == (None, 0, 1)
    assert (second.think_s, third.think_s) == (5.5, 9.0)  # the last from the times: 20 - 9 - 2
    assert [record.turn for record in (first, second, third)] == [0, 1, 2]


def test_block_ids_are_of_their_session_alone(tmp_path: Path) -> None:
    one, two = read_sessions(tmp_path, session(turn(0, 0, [[3, 5]]), name="a"), session(turn(0, 0, [[0, 9]]), name="b"))
    assert not set(blocks_of(one)) & set(blocks_of(two))
    assert (one.session_number, two.session_number) == (0, 1)


def test_a_subagent_is_a_session_that_the_turn_before_it_begins(tmp_path: Path) -> None:
    agent = {"t": 12.0, "type": "subagent", "agent_id": "x", "requests": [turn(0, 0, [[7, 1]]), turn(5, 1, [[8, 1]])]}
    parent, first, second, later = read_sessions(
        tmp_path, session(turn(0, 0, [[1, 2]], api_time=4.0), agent, turn(13, 2, [], think_time=9.0))
    )
    assert [record.session for record in (parent, first, second, later)] == ["s", "s/x", "s/x", "s"]
    assert [record.after for record in (parent, first, second, later)] == [None, 0, 1, 0]
    assert (first.think_s, second.think_s, later.think_s) == (8.0, 5.0, 9.0)
    assert (first.turn, second.turn, later.turn) == (0, 1, 1)
    assert blocks_of(later) == blocks_of(parent)


def test_sessions_are_read_from_gzip_and_limited_by_number(tmp_path: Path) -> None:
    path = tmp_path / "sessions.gz"
    lines = [json.dumps(session(turn(0, 0, [[1, 1]]), turn(1, 1, []), name=str(number))) for number in range(5)]
    path.write_bytes(gzip.compress("\n".join(lines).encode()))
    whole = list(read_trace(path, TraceFormat.AUTO, Limits()))
    assert len(whole) == 10
    assert list(read_trace(path, TraceFormat.AUTO, Limits(num_sessions=3))) == whole[:6]
    assert list(read_trace(path, TraceFormat.AUTO, Limits(num_requests=5))) == whole[:5]


def test_a_turn_that_is_too_long_ends_its_session_and_no_other(tmp_path: Path) -> None:
    agent = {"t": 3.0, "type": "subagent", "agent_id": "x", "requests": [turn(0, 0, [[7, 1]])]}
    short, long = turn(0, 0, [[1, 1]]), {**turn(1, 1, []), "in": 500}
    sessions = [
        session({**short, "in": 500}, turn(2, 0, []), name="whole"),
        session(short, agent, long, turn(2, 1, []), name="half"),
        session(short, turn(2, 1, []), name="none"),
    ]
    records = read_sessions(tmp_path, *sessions, limits=Limits(max_context_tokens=105))
    assert [record.session for record in records] == ["half", "half/x", "none", "none"]
    assert [record.after for record in records] == [None, 0, None, 2]
    assert [record.session_number for record in records] == [0, 0, 1, 1]
    first = read_sessions(tmp_path, *sessions, limits=Limits(max_context_tokens=105, num_sessions=1))
    assert first == records[:2]


def test_a_window_of_time_begins_at_zero(tmp_path: Path) -> None:
    text = "".join(json.dumps({"prompt": str(at), "at": at}) + "\n" for at in range(10))
    records = read(tmp_path, text, Limits(start_s=3, end_s=6))
    assert [(record.text, record.at_s) for record in records] == [("3", 0.0), ("4", 1.0), ("5", 2.0)]


@pytest.mark.parametrize(
    ("text", "limits", "named"),
    [
        ('{"prompt": "a"}', Limits(end_s=3), "no times"),
        ('{"prompt": "a"}', Limits(num_sessions=3), "no sessions"),
        (json.dumps(session()), Limits(end_s=3), "no common clock"),
    ],
)
def test_limits_that_a_file_cannot_have_are_refused(tmp_path: Path, text: str, limits: Limits, named: str) -> None:
    with pytest.raises(BadLoad, match=named):
        read(tmp_path, text, limits)


@pytest.mark.parametrize(
    ("text", "line", "named"),
    [
        (MOONCAKE + MOONCAKE.replace("900", '"900"'), 2, "input_length"),
        (MOONCAKE + "\n" + MOONCAKE.replace('"output_length": 7, ', ""), 3, "output_length"),
        (MOONCAKE + MOONCAKE.replace("14", "-14"), 2, "hash_ids"),
        (MOONCAKE + MOONCAKE[:30], 2, "this is not one JSON object: Input data was truncated"),
        (MOONCAKE.replace('"output_length": 7', '"output_length": 0'), 1, "output_length"),
        (MOONCAKE.replace("900", "0"), 1, "input_length"),
        (MOONCAKE.replace("900", "6000"), 1, r"\$.hash_ids: 3 ids, and 6000 tokens are 12 blocks of 512"),
        (AZURE.replace("3,8", "3,many"), 3, "GeneratedTokens: 'many'"),
        (AZURE.replace("4808,", "-1,"), 2, "ContextTokens: '-1'"),
        (AZURE.replace("2023-11-16 18:17:05", "2023-13-16 18:17:05"), 3, "TIMESTAMP"),
        (AZURE.replace("18:17:05.9799600", "18:17:05+00:00"), 3, "TIMESTAMP"),
        (AZURE + ",5", 3, "4 fields where 3"),
        ("TIMESTAMP,ContextTokens\n", 1, "GeneratedTokens: no such column"),
        ('{"prompt": "a"}\n{"prompt": 5}', 2, "prompt"),
        ('{"prompt": "a"}\n{"prompt": "a", "messages": []}', 2, "messages"),
        ('{"prompt": "a"}\n{"id": 1}', 2, "prompt, messages"),
        ('{"prompt": "a"}\n{"messages": [{"content": "a"}]}', 2, "messages: .*role"),
        ('{"prompt": "a"}\n{"messages": []}', 2, "messages"),
        ('{"prompt": "a"}\n{"prompt": "a", "max_tokens": 0}', 2, "max_tokens"),
        ('{"prompt": "a", "at": 0}\n{"prompt": "a"}', 2, "at: either every line"),
        ('{"prompt": "a"}\n{"prompt": "a", "at": 1}', 2, "at: either every line"),
        ('{"prompt": "a", "at": -1}', 1, "at"),
        (json.dumps(session(turn(0, 0, [[1, 2]]), turn(1, 3, []))), 1, r"requests\[1\].keep"),
        (json.dumps(session({**turn(0, 0, []), "type": "z"})), 1, r"requests\[0\]\.type"),
        ("# a comment", 1, "none of the formats"),
        ("", 1, "none of the formats"),
    ],
)  # fmt: skip
def test_a_broken_line_is_told_with_file_line_and_field(tmp_path: Path, text: str, line: int, named: str) -> None:
    with pytest.raises(BadTrace, match=named) as caught:
        read(tmp_path, text)
    assert str(caught.value).startswith(f"{tmp_path / 'trace'}:{line}: ")
    assert "\n" not in str(caught.value)


def test_bytes_that_are_no_text_are_told(tmp_path: Path) -> None:
    path = tmp_path / "trace"
    path.write_bytes(b'{"prompt": "a"}\n{"prompt": "\xff"}')
    with pytest.raises(BadTrace, match=":2: "):
        list(read_trace(path, TraceFormat.PROMPTS, Limits()))


def test_a_file_that_is_not_there_or_ends_early_is_told(tmp_path: Path) -> None:
    with pytest.raises(BadTrace, match="No such file"):
        format_of(tmp_path / "absent")
    path = tmp_path / "cut.gz"
    lines = "\n".join(json.dumps({"prompt": str(number) * 50}) for number in range(5000))
    path.write_bytes(gzip.compress(lines.encode())[:-200])
    with pytest.raises(BadTrace, match=r"cut\.gz:\d+: "):
        list(read_trace(path, TraceFormat.PROMPTS, Limits()))


def test_reading_ends_where_the_limit_is_reached(tmp_path: Path) -> None:
    """So a defect behind the limit is none."""
    assert len(read(tmp_path, MOONCAKE * 2 + "broken", Limits(num_requests=2))) == 2
