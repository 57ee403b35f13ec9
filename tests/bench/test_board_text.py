"""Boards as text; a document keeps all but what is between the marks."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.board_lines import Line, ScriptResult
from bench.board_text import BEGIN, END, as_markdown, as_text, changes_text, number, replace_section
from bench.table import table_text
from tests.support.boards import board_of

LINES = [Line("rate", "req/s", True, 1234.5, {"peer": 617.25}), Line("delay", "ms", False, 2.0, limit=1.0)]
RESULT = ScriptResult(script="pd", command=["--rounds", "1"], elapsed_s=3.0, lines=LINES)
FAILED = ScriptResult(script="transfer", command=[], elapsed_s=3.0, failure="exit code 1: no memory")


def test_a_board_has_a_row_for_each_line():
    rows = as_markdown(board_of(RESULT)).splitlines()
    assert "| rate | req/s | 1,234 | peer 617 | 2.00 |  |  |" in rows
    assert "| delay | ms | 2 |  |  | 1 () | 0.50 |" in rows


@pytest.mark.parametrize("render", [as_text, as_markdown])
def test_a_script_that_failed_is_told_of(render):
    assert "FAILED: exit code 1: no memory" in render(board_of(FAILED, RESULT))


def test_changes_name_what_was_and_what_is():
    now = ScriptResult(script="pd", command=[], elapsed_s=1.0, lines=[Line("delay", "ms", False, 2.0)])
    then = ScriptResult(script="pd", command=[], elapsed_s=1.0, lines=[Line("delay", "ms", False, 1.0)])
    last = changes_text(board_of(now), board_of(then)).splitlines()[-1]
    assert last.split() == ["pd:", "delay", "ms", "1", "2", "0.50", "worse"]


def test_a_section_is_replaced_again_and_again_and_nothing_else_changes(tmp_path: Path):
    document = tmp_path / "page.md"
    document.write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n")
    for text in ("new", "newer"):
        replace_section(document, text)
        assert document.read_text() == f"before\n{BEGIN}\n{text}\n{END}\nafter\n"


@pytest.mark.parametrize("whole", ["", f"{BEGIN}", f"{END}{BEGIN}"])
def test_a_document_without_both_marks_in_order_is_refused_and_kept(tmp_path: Path, whole: str):
    document = tmp_path / "page.md"
    document.write_text(whole)
    with pytest.raises(ValueError, match="lacks the marks"):
        replace_section(document, "new")
    assert document.read_text() == whole


@pytest.mark.parametrize(
    ("value", "text"), [(0.00523, "0.00523"), (2.0, "2"), (97.64, "97.6"), (123.4, "123"), (21039.2, "21,039")]
)
def test_numbers_have_three_figures_that_count(value: float, text: str):
    assert number(value) == text


def test_numbers_stand_at_the_right_and_words_at_the_left():
    assert table_text(["name", "ms"], [["a", "1"], ["long name", "100"]]) == (
        "name        ms\na            1\nlong name  100"
    )
