"""Rows that are test suites of their own: parity, mutations, compose; and the search of the simulator."""

from __future__ import annotations

import re
import sys
from tempfile import TemporaryDirectory

from tests.accept.commands import BATON, ROOT, Done, run
from tests.accept.row import Options, Row, cannot_run, judged

PYTEST = (sys.executable, "-m", "pytest", "-p", "no:cacheprovider")
PARITY_LIMIT_S = 1200.0
FUZZ_LIMIT_S = 1800.0
MUTATIONS_LIMIT_S = 1800.0
COMPOSE_LIMIT_S = 300.0
AIM_COVERAGE_PERCENT = 95.0
COVERAGE_SEEDS = "0..250"
COVERED = ("router", "scheduler", "executor", "session")


def counts(done: Done) -> dict[str, int]:
    """What pytest's last line counts."""
    return {word: int(number) for number, word in re.findall(r"(\d+) (passed|failed|skipped|errors?)", done.last_line)}


def is_good(done: Done) -> bool:
    found = counts(done)
    return done.code == 0 and found.get("passed", 0) > 0


def parity(options: Options) -> Row:
    asked = "every token is the float64 reference's best (tiny: exactly; SmolLM2: within 1e-3), sampled draws too (X8)"
    where = ["tests/parity", "-k", "not smollm2"] if options.quick else ["tests/parity"]
    done = run([*PYTEST, *where, "-rs"], PARITY_LIMIT_S)
    found = counts(done)
    skipped = "".join(f"; {line}" for line in done.output.splitlines() if line.startswith("SKIPPED"))
    return judged(asked, done.last_line + skipped, is_good(done) and not found.get("skipped"), counts=found)


def compose(_: Options) -> Row:
    asked = "compose.yaml is valid and its very commands serve in namespaces of their own"
    test = ROOT / "tests" / "processes" / "test_compose.py"
    if not test.is_file():
        return cannot_run(asked, "no compose test here")
    done = run([*PYTEST, str(test), "-rs"], COMPOSE_LIMIT_S)
    if counts(done).get("skipped"):
        return cannot_run(asked, next(line for line in done.output.splitlines() if line.startswith("SKIPPED")))
    return judged(asked, done.last_line, is_good(done), counts=counts(done))


def fuzz(options: Options) -> Row:
    num_seeds = 100 if options.quick else 1000
    asked = f"{num_seeds:,} seeds break no law"
    if not options.quick:
        asked += f"; every planted defect is found; coverage by fuzz alone at least {AIM_COVERAGE_PERCENT:g} %"
    search = run([*BATON, "fuzz", "--seeds", f"0..{num_seeds - 1}", "--jobs", "2"], FUZZ_LIMIT_S)
    is_met = search.code == 0
    line = next((line for line in reversed(search.output.splitlines()) if " violations" in line), search.last_line)
    parts = [line.strip()]
    if not options.quick:
        mutants = run([*PYTEST, "tests/mutations"], MUTATIONS_LIMIT_S)
        parts.append(f"planted defects: {mutants.last_line}")
        percent = coverage_percent()
        parts.append("coverage could not be measured" if percent is None else f"coverage {percent:g} %")
        is_met = is_met and is_good(mutants) and percent is not None and percent >= AIM_COVERAGE_PERCENT
    return judged(asked, "; ".join(parts), is_met)


def coverage_percent() -> float | None:
    """Lines and branches of the machines that `COVERAGE_SEEDS` reach, together; None if it cannot be measured."""
    with TemporaryDirectory(prefix="accept-") as folder:
        tool = [sys.executable, "-m", "coverage"]
        where = {"COVERAGE_FILE": f"{folder}/coverage"}
        under = ["--branch", f"--source={','.join(f'core/{part}' for part in COVERED)}"]
        search = [*BATON[1:], "fuzz", "--seeds", COVERAGE_SEEDS]
        if run([*tool, "run", *under, *search], FUZZ_LIMIT_S, where).code != 0:
            return None
        report = run([*tool, "report", "--format=total", "--precision=1"], 60.0, where)
        share = re.fullmatch(r"\s*([\d.]+)\s*", report.output)
    return float(share[1]) if share else None
