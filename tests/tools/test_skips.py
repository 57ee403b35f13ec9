"""X5: tests are collected without anything optional, and whatever skips one says why."""

from __future__ import annotations

import ast
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

from tests.support.planted import ROOT

#: the package's own extra, and what only some tests of clients and pages need
OPTIONAL = ("torch", "nixl", "transformers", "gguf", "playwright", "schemathesis")
NAMES = ("pytest.skip", "pytest.importorskip", "pytest.xfail", "pytest.mark.skip", "pytest.mark.xfail")
COLLECT = """
import sys
import pytest

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in OPTIONAL:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Absent())
sys.exit(pytest.main(["--collect-only", "-q", "-p", "no:cacheprovider", "-p", "no:schemathesis", "tests"]))
"""


def skips(tree: ast.AST) -> Iterator[ast.Call]:
    """Calls of pytest's that skip a test."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func).startswith(NAMES):
            yield node


def gives_reason(call: ast.Call) -> bool:
    reasons: list[ast.expr] = [word.value for word in call.keywords if word.arg == "reason"]
    if ast.unparse(call.func) == "pytest.skip":
        reasons += call.args[:1]
    return any(not isinstance(reason, ast.Constant) or bool(reason.value) for reason in reasons)


def test_x5_whatever_skips_a_test_says_why() -> None:
    found = [
        (path, call) for path in (ROOT / "tests").rglob("*.py") for call in skips(ast.parse(path.read_text("utf-8")))
    ]
    assert len(found) > 10
    assert [f"{path}:{call.lineno}" for path, call in found if not gives_reason(call)] == []


def test_x5_what_was_skipped_is_listed() -> None:
    options = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["pytest"]["ini_options"]
    assert "-rs" in options["addopts"].split()


def test_x5_every_test_is_collected_without_optional_packages(tmp_path: Path) -> None:
    script = tmp_path / "collect.py"
    script.write_text(f"OPTIONAL = {OPTIONAL}\n{COLLECT}")
    done = subprocess.run([sys.executable, str(script)], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]
