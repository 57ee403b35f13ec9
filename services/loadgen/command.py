"""`baton bench`: plans the load, asks the server, runs, reports.

Exit codes: 0; 1 too many failures, no success, or what was measured is not whole; 2 nothing could be run; 130
interrupted.
"""

from __future__ import annotations

import sys

from baton.core.errors import ServingError
from baton.services.loadgen import comparing
from baton.services.loadgen.bench import Bench
from baton.services.loadgen.console import Output
from baton.services.loadgen.options import in_flags, parse_options

EXIT_REFUSED = 2


def main(given: list[str]) -> int:
    try:
        if given[:1] == ["compare"]:
            return comparing.main(given[1:])
        return Bench(parse_options(given), Output(), Output(stderr=True)).run()
    except ServingError as error:
        print(f"baton bench: {in_flags(str(error))}", file=sys.stderr)
    except BrokenPipeError:
        raise
    except OSError as error:
        print(f"baton bench: {error.filename or 'error'}: {error.strerror or error}", file=sys.stderr)
    return EXIT_REFUSED
