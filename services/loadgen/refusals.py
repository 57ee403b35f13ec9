"""How the commands that work on loads refuse, and how they go on where something cannot be written: one line."""

from __future__ import annotations

import sys
from collections.abc import Callable

from baton.core.errors import ServingError

EXIT_REFUSED = 2


def or_refused(name: str, work: Callable[[], int], in_words: Callable[[str], str] = str) -> int:
    """The exit code of `work`; EXIT_REFUSED where it cannot be done, after a line that says why. `in_words` puts our
    errors into the words of the command line. A pipe that nobody reads is left to whoever started the command."""
    try:
        return work()
    except ServingError as error:
        print(f"baton {name}: {in_words(str(error))}", file=sys.stderr)
    except BrokenPipeError:
        raise
    except OSError as error:
        print(f"baton {name}: {error.filename or 'error'}: {error.strerror or error}", file=sys.stderr)
    return EXIT_REFUSED


def is_written(write: Callable[[], None], say: Callable[[str], None]) -> bool:
    """Whether files, or lines on standard output, could be written. If not, `say` gets why: a full disk costs what it
    cannot take, not what was measured."""
    try:
        write()
    except OSError as error:
        say(f"{error.filename or 'standard output'}: {error.strerror or error}")
        return False
    return True
