"""The work for an output grows with its length alone, however hostile it is and however it is cut.

Work is counted in executed lines of the package, so that no clock is needed; no line of it scans what was read before.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from baton.services.router.tools import stream
from baton.services.router.tools.detect import ToolFormat
from baton.services.router.tools.events import ArgumentsDelta
from baton.services.router.tools.parsers import new_parser
from tests.services.router.tools.outputs import SCHEMAS, parse, read

PACKAGE = str(Path(stream.__file__).parent)
MAX_LINES_PER_CHAR = 45
SHORT, LONG = 1_500, 3_000  #: characters
HERMES_CALL = '<tool_call>{"name": "f", "arguments": {'
#: (format, beginning, what is repeated; `k{}` is a new key each time)
HOSTILE: list[tuple[ToolFormat, str, str]] = [
    ("hermes", "", " "),
    ("hermes", "", "<"),
    ("hermes", "", "<tool_call"),
    ("hermes", "", "<tool_call>"),
    ("hermes", "", "<tool_call>{"),
    ("hermes", "", '<tool_call>{"name": "f"}</tool_call>'),
    ("hermes", '<tool_call>{"name": "', "x"),
    ("hermes", "<tool_call>{", '"k{}": [1], '),
    ("hermes", "<tool_call>[", '{"name": "f"}, '),
    ("hermes", HERMES_CALL, '"k{}": "v", '),
    ("hermes", HERMES_CALL + '"a": "', "\\\\"),
    ("hermes", HERMES_CALL + '"a": ', "1"),
    ("llama3_json", "", "{"),
    ("llama3_json", "", '{"name": "f", "parameters": {}};'),
    ("llama3_json", "", "<|python_tag|>"),
    ("mistral", "", "[TOOL_CALLS]"),
    ("mistral", "[TOOL_CALLS]", "a"),
    ("mistral", "", "[TOOL_CALLS]f[ARGS]{}"),
    ("qwen3_coder", "<function=", "f"),
    ("qwen3_coder", "<function=f>", "<parameter=k{}>v</parameter>"),
    ("qwen3_coder", "<function=f><parameter=b>", "\n"),
    ("qwen3_coder", "<function=f><parameter=b>", "\n</parameter"),
    ("qwen3_coder", "<function=f><parameter=a>", "1"),
    ("qwen3_coder", "", "<function=f></function>"),
    ("pythonic", "[f(", "k{}='v', "),
    ("pythonic", "[f(a='", "\\x"),
    ("pythonic", "[f(a='", "\\17"),
    ("pythonic", "[f(a=", "1"),
    ("pythonic", "[f(a=", "T"),
    ("pythonic", "[f(a=[", "{'k': 1}, "),
    ("pythonic", "[", "f(), "),
    ("pythonic", "[", "a"),
]


def num_lines(work: Callable[[], object]) -> int:
    """How many lines of the package it executes."""
    count = 0

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal count
        if not frame.f_code.co_filename.startswith(PACKAGE):
            return None
        count += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    return count


def hostile(beginning: str, repeated: str, num_chars: int) -> str:
    """An output of about so many characters."""
    pieces = (repeated.replace("k{}", f"k{index:05}") for index in range(num_chars))
    return beginning + "".join(pieces)[:num_chars]


@pytest.mark.parametrize(("tool_format", "beginning", "repeated"), HOSTILE)
@pytest.mark.parametrize("chars_a_piece", [1, 7, LONG])
def test_twice_the_output_is_twice_the_work(
    tool_format: ToolFormat, beginning: str, repeated: str, chars_a_piece: int
) -> None:
    def work(num_chars: int) -> int:
        text = hostile(beginning, repeated, num_chars)
        pieces = [text[at : at + chars_a_piece] for at in range(0, len(text), chars_a_piece)]
        return num_lines(lambda: parse(tool_format, pieces))

    short, long = work(SHORT), work(LONG)
    assert long <= 2.05 * short
    assert long <= MAX_LINES_PER_CHAR * LONG


def test_thirty_keyword_arguments_that_never_end() -> None:
    """They stay delivered, and nothing of them is read twice."""
    keywords = ", ".join(f"key_{index}='value {index}'" for index in range(30))
    parsed = read("pythonic", f"[f({keywords}")
    assert parsed.text == ""
    assert parsed.calls[0].arguments.count('": "value ') == 30
    assert not parsed.calls[0].is_complete
    lines = num_lines(lambda: parse("pythonic", list(f"[f({keywords}")))
    assert lines <= MAX_LINES_PER_CHAR * len(keywords)


def test_a_long_argument_is_not_kept() -> None:
    """100 kB of an unterminated call are passed on piece by piece."""
    parser = new_parser("hermes", SCHEMAS)
    parser.push(HERMES_CALL + '"a": "')
    for _ in range(1000):
        assert parser.push("x" * 100) == [ArgumentsDelta(0, "x" * 100)]
    assert not parser._held
