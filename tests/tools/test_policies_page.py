"""docs/policies.md says what the code has: its knobs, and tests and modules that exist."""

from __future__ import annotations

import re
import tomllib

from tests.support.knob_table import PAGE, knob_table, parts
from tests.support.planted import ROOT

ID = re.compile(r"\b[CGHOPRWX]\d+\b")
#: by family, the numbers of its rules; C16, C24, P11 and X7 were given up and are not used again
RULES = {
    "C": {*range(29)} - {16, 24},
    "G": {*range(1, 9)},
    "H": {*range(1, 17)},
    "O": {*range(1, 14)},
    "P": {*range(1, 16)} - {11},
    "R": {*range(1, 5)},
    "W": {*range(1, 16)},
    "X": {*range(1, 9)} - {7},
}
ALL_IDS = {f"{family}{number}" for family, numbers in RULES.items() for number in numbers}
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


def test_each_rule_has_its_code_and_its_test_on_the_page_or_a_reason_why_not() -> None:
    page = PAGE.read_text()
    proven: set[str] = set()
    for rules, code, tests in RULE.findall(page):
        assert re.search(r"`\w+[/.][\w/.]*`", code), f"{rules}: no code"
        assert re.search(r"`(tests/|…|test_)", tests), f"{rules}: no test"
        proven |= set(ID.findall(rules))
    excused = set(ID.findall(" ".join(re.findall(r"^\| ([CGHOPRWX]\d+\b[^|]*) \| [^|]+ \|$", page, re.MULTILINE))))
    assert proven | excused == ALL_IDS
    assert not proven & excused


#: rules that no line of the program can break, and why
UNBROKEN = {
    "H11": "says that no policy changes a token: X8 breaks them",
    "H14": "says how figures are taken",
    "H15": "says where tests block a launch",
    "O7": "waits for a card",
    "O12": "waits for a card",
    "W11": "waits for a transport that needs it",
    "X5": "says what tests may need",
    "X6": "says what reports say",
}


def test_each_rule_is_broken_by_a_planted_defect_or_cannot_be() -> None:
    """A defect breaks the rule that it names and those in the name of the test that must fail."""
    catalog = tomllib.loads((ROOT / "tests" / "mutations" / "policies.toml").read_text())["defect"]
    broken = {defect["rule"] for defect in catalog}
    for defect in catalog:
        broken |= {word.upper() for word in re.findall(r"(?<=_)[cghoprwx]\d+(?=_)", defect["test"])}
    assert (broken & ALL_IDS) | set(UNBROKEN) == ALL_IDS
    assert not broken & set(UNBROKEN)
