"""Each rule of the policies is broken once in its own line, and the test that the catalog names must fail with it."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
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


@pytest.mark.parametrize("name", DEFECTS)
def test_the_named_test_fails_with_the_defect(name: str, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.support.planted", str(CATALOG), name, str(tmp_path / "its")]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 1, done.stdout + done.stderr
