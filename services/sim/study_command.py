"""How `baton compare` and `baton tune` end."""

from __future__ import annotations

import sys
from collections.abc import Callable

from baton.core.errors import ServingError
from baton.services.loadgen.console import Output
from baton.services.sim.many_runs import Broken
from baton.services.sim.run import EXIT_FAILED, EXIT_REFUSED


def run_study(name: str, study: Callable[[Output, Output], int]) -> int:
    """The exit code of the study, which gets stdout and stderr; of one that fails, after one line that says why."""
    try:
        return study(Output(), Output(stderr=True))
    except Broken as error:
        print(f"baton {name}: {error}", file=sys.stderr)
        return EXIT_FAILED
    except ServingError as error:
        print(f"baton {name}: {error}", file=sys.stderr)
    except BrokenPipeError:
        raise
    except OSError as error:
        print(f"baton {name}: {error.filename or 'error'}: {error.strerror or error}", file=sys.stderr)
    return EXIT_REFUSED
