"""`python -m baton.services.prefill`."""

import sys

from baton.core.ids import Role
from baton.services.executor.service import main as run_executor


def main(arguments: list[str] | None = None) -> int:
    return run_executor(Role.PREFILL, arguments)


if __name__ == "__main__":
    sys.exit(main())
