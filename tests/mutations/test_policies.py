"""Each rule of the policies is broken once in its own line, and the test that the catalog names must fail with it."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.planted import ROOT, entries

CATALOG = Path(__file__).parent / "policies.toml"
DEFECTS = entries(CATALOG)


def test_each_defect_has_a_name_and_a_rule_of_its_own_kind() -> None:
    assert len(DEFECTS) == CATALOG.read_text().count("[[defect]]")
    assert all(defect["rule"][0] in "CHGOPRWX" and defect["rule"][1:].isdigit() for defect in DEFECTS.values())


@pytest.mark.parametrize("name", DEFECTS)
def test_the_text_of_a_defect_and_its_test_are_where_it_says(name: str) -> None:
    defect = DEFECTS[name]
    spec = importlib.util.find_spec(defect["module"])
    assert spec is not None
    assert spec.origin is not None
    assert Path(spec.origin).read_text().count(defect["old"]) == defect.get("count", 1)
    path, test = defect["test"].split("::")
    assert f"def {test.partition('[')[0]}(" in (ROOT / path).read_text()


@pytest.fixture(scope="module")
def planting() -> Iterator[subprocess.Popen[str]]:
    """A process that makes one for each defect."""
    command = [sys.executable, "-m", "tests.support.planted", str(CATALOG)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
        yield process
        assert process.stdin is not None
        process.stdin.close()


@pytest.mark.parametrize("name", DEFECTS)
def test_the_named_test_fails_with_the_defect(name: str, planting: subprocess.Popen[str], tmp_path: Path) -> None:
    assert planting.stdin is not None
    assert planting.stdout is not None
    planting.stdin.write(f"{name} {tmp_path / 'its'}\n")
    planting.stdin.flush()
    assert planting.stdout.readline() == "1\n", (tmp_path / "its.txt").read_text()
