"""What one line of the acceptance table says."""

from __future__ import annotations

import enum
from typing import Any, NamedTuple


class Verdict(enum.Enum):
    MET = "met"
    NOT_MET = "not met"
    CANNOT_RUN = "cannot run here"


class Row(NamedTuple):
    """One line: what was asked, what was measured. `numbers` go to the JSON report."""

    asked: str
    measured: str
    verdict: Verdict
    numbers: dict[str, Any] = {}  # noqa: RUF012 - never written to


class Options(NamedTuple):
    """How much of the work a run does."""

    quick: bool  #: fewer seeds, shorter measurements
    full: bool  #: also what installs everything again


def judged(asked: str, measured: str, is_met: bool, **numbers: Any) -> Row:
    return Row(asked, measured, Verdict.MET if is_met else Verdict.NOT_MET, numbers)


def cannot_run(asked: str, why: str) -> Row:
    return Row(asked, why, Verdict.CANNOT_RUN)
