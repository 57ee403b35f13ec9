"""`docs/failure-modes.md` names only tests that are there, and every test that carries an id has its row."""

from __future__ import annotations

import re

from tests.conformance.source_scan import ROOT

ROW = re.compile(r"^\| ([A-Z]{3}-\d\d) \| (.+?) \| (.+) \|$")
CELL = re.compile(r"`([\w/]+\.py)`: ((?:`\w+\*?`(?:, )?)+)")
DEFINED = re.compile(r"^\s*(?:async )?def (test_\w+)", re.MULTILINE)
CARRIED = re.compile(r"(?:^|_)(api|str|rtr|sch|kvt|zmq|ldg|sec|als)_?(\d\d)(?=_)", re.IGNORECASE)
LATER = {"SCH-02"}


def rows() -> dict[str, tuple[str, list[tuple[str, str]]]]:
    """id → (what the system does, (file, name) of its tests)."""
    found = {}
    for line in (ROOT / "docs" / "failure-modes.md").read_text(encoding="utf-8").splitlines():
        if row := ROW.match(line):
            tests = [(file, name) for file, names in CELL.findall(row[3]) for name in re.findall(r"`(\w+\*?)`", names)]
            found[row[1]] = (row[2], tests)
    return found


def defined(file: str) -> list[str]:
    return DEFINED.findall((ROOT / "tests" / file).read_text(encoding="utf-8"))


def test_every_named_test_is_there() -> None:
    for mode, (_, tests) in rows().items():
        for file, name in tests:
            begin = name.removesuffix("*")
            assert any(n.startswith(begin) if begin != name else n == name for n in defined(file)), (mode, file, name)


def test_every_row_has_tests_or_says_why_not() -> None:
    found = rows()
    assert len(found) > 50
    assert {mode for mode, (_, tests) in found.items() if not tests} == {*LATER, "ALS-06"}
    assert all("later feature" in found[mode][0] for mode in LATER)


def test_every_id_that_a_test_carries_has_a_row() -> None:
    carried = {
        f"{family.upper()}-{number}"
        for path in (ROOT / "tests").rglob("test_*.py")
        for name in DEFINED.findall(path.read_text(encoding="utf-8"))
        for family, number in CARRIED.findall(name)
    }
    assert carried - set(rows()) == set()
