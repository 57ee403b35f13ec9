"""Every line and branch of the policies' code is reached by the tests of `core`, the simulator's left out.

    python -m tests.accept.policy_coverage [PYTEST_ARGUMENT]…

prints what is not, and ends with 1 if there is anything. A place that cannot be reached says so in its own line
(`# pragma: no cover` and why). Where InvariantViolated is raised counts as such: only a bug of ours comes there, and
tests plant violations of each law for it.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tests.accept.commands import ROOT, run
from tests.accept.row import Options, Row, judged

LIMIT_S = 1800.0
PAGE = ROOT / "docs" / "policies.md"
CODE = re.compile(r"`(core/(?:executor/|scheduler/|router/|config|knob_effects)[\w/]*\.py)`")
RULE = re.compile(r"^\| (?:[A-Z]\d+\b)[^|]* \| ([^|]+) \| [^|]+ \|$", re.MULTILINE)
RULES = "[report]\nexclude_also =\n    raise InvariantViolated\n"
TESTS = ("tests/core", "--ignore=tests/core/sim", "--timeout=0", "-p", "no:cacheprovider")


def policy_files() -> list[str]:
    """Of the machines, and the knobs: those that docs/policies.md names as a rule's code."""
    cells = RULE.findall(PAGE.read_text(encoding="utf-8"))
    return sorted({file for cell in cells for file in CODE.findall(cell)})


def report(arguments: Sequence[str] = TESTS) -> dict[str, Any]:
    """What coverage says of these files after these tests. Raises RuntimeError where they fail."""
    with TemporaryDirectory(prefix="accept-") as folder:
        where = {"COVERAGE_FILE": f"{folder}/coverage"}
        tool = [sys.executable, "-m", "coverage"]
        watched = ["--branch", f"--include={','.join(policy_files())}"]
        pytest = ["-m", "pytest", "--basetemp", f"{folder}/tests", *arguments]
        tests = run([*tool, "run", *watched, *pytest], LIMIT_S, where)
        if tests.code != 0:
            raise RuntimeError(tests.output[-4000:])
        Path(folder, "rules").write_text(RULES, encoding="utf-8")
        told = run([*tool, "json", f"--rcfile={folder}/rules", "-o", f"{folder}/report.json"], 60.0, where)
        if told.code != 0:
            raise RuntimeError(told.output)
        found: dict[str, Any] = json.loads(Path(folder, "report.json").read_text(encoding="utf-8"))
    return found


def missed(found: dict[str, Any]) -> Iterator[str]:
    """Each line and branch that no test has reached, and each file that none has imported."""
    files = found["files"]
    for name in policy_files():
        if name not in files:
            yield f"{name}: not imported"
            continue
        lines = set(files[name]["missing_lines"])
        yield from (f"{name}:{line}: not reached" for line in sorted(lines))
        for begin, end in files[name]["missing_branches"]:
            if begin not in lines and end not in lines:
                yield f"{name}:{begin}: never goes on {'to its end' if end < 0 else f'at {end}'}"


def measure(_: Options) -> Row:
    asked = "every line and branch of the policies' code is reached by its tests, the simulator's left out"
    found = report()
    places = list(missed(found))
    totals = found["totals"]
    said = f"{totals['percent_covered']:.2f} % of {len(policy_files())} files, {totals['num_branches']} branches"
    return judged(asked, "; ".join([said, *places[:10]]), not places, missed=places)


if __name__ == "__main__":
    places = list(missed(report([*TESTS, *sys.argv[1:]])))
    print("\n".join(places) or "everything is reached")
    sys.exit(1 if places else 0)
