"""`baton bench` from its first moment on: a Ctrl-C gives one line, also while the libraries of a load are read."""

from __future__ import annotations

import sys

from baton.services.loadgen.interrupts import EXIT_INTERRUPTED, ends_at_interrupt


def main(arguments: list[str] | None = None) -> int:
    with ends_at_interrupt():
        from baton.services.loadgen import command
    try:
        return command.main(sys.argv[1:] if arguments is None else arguments)
    except KeyboardInterrupt:
        print("baton bench: interrupted", file=sys.stderr)
        return EXIT_INTERRUPTED


if __name__ == "__main__":
    sys.exit(main())
