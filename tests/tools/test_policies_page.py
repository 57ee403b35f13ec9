"""docs/policies.md says what the code has: its knobs, and tests and modules that exist."""

from __future__ import annotations

import re

from tests.support.knob_table import PAGE, knob_table, parts
from tests.support.planted import ROOT

RULE = re.compile(r"^\| ([A-Z]\d+\b[^|]*) \| ([^|]+) \| ([^|]+) \|$", re.MULTILINE)


def test_c23_the_table_of_knobs_is_the_one_of_the_configs() -> None:
    assert parts(PAGE.read_text())[1] == knob_table(), "python -m tests.support.knob_table writes it again"


def test_code_and_tests_that_the_page_names_exist() -> None:
    """A row `| rule | code | tests |` names files from the root of the checkout, and tests by their functions."""
    for rule, code, tests in RULE.findall(PAGE.read_text()):
        for name in re.findall(r"`([\w/]+\.(?:py|toml|pyx|c))`", code):
            assert (ROOT / name).exists(), f"{rule}: {name}"
        for path, function in re.findall(r"`([\w/]+\.py)(?:::(\w+))?`", tests):
            assert (ROOT / path).exists(), f"{rule}: {path}"
            assert f"def {function}" in (ROOT / path).read_text(), f"{rule}: {path}::{function}"
