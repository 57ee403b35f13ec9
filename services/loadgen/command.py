"""`baton bench`: plans the load, asks the server, runs, reports.

Exit codes: 0; 1 too many failures, no success, or what was measured is not whole; 2 nothing could be run; 130
interrupted.
"""

from __future__ import annotations

from baton.services.loadgen import comparing
from baton.services.loadgen.bench import Bench
from baton.services.loadgen.console import Output
from baton.services.loadgen.options import in_flags, parse_options
from baton.services.loadgen.refusals import or_refused


def main(given: list[str]) -> int:
    return or_refused("bench", lambda: _run(given), in_flags)


def _run(given: list[str]) -> int:
    if given[:1] == ["compare"]:
        return comparing.main(given[1:])
    return Bench(parse_options(given), Output(), Output(stderr=True)).run()
