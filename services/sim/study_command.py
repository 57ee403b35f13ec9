"""How `baton compare` and `baton tune` end."""

from __future__ import annotations

import sys
from collections.abc import Callable

from baton.services.loadgen.console import Output
from baton.services.loadgen.refusals import or_refused
from baton.services.sim.many_runs import Broken
from baton.services.sim.run import EXIT_FAILED


def run_study(name: str, study: Callable[[Output, Output], int]) -> int:
    """The exit code of the study, which gets stdout and stderr; of one that fails, after one line that says why."""

    def work() -> int:
        try:
            return study(Output(), Output(stderr=True))
        except Broken as error:
            print(f"baton {name}: {error}", file=sys.stderr)
            return EXIT_FAILED

    return or_refused(name, work)
