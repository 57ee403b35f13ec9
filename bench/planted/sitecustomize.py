"""Found by programs that are started with this folder on PYTHONPATH: plants what $BATON_PLANTED names."""

from __future__ import annotations

import os
import sys


def plant() -> None:
    from plants import PLANTS

    name = os.environ["BATON_PLANTED"]
    if not any(argument.startswith("baton.services.") for argument in sys.orig_argv):
        return
    from baton.core.sim.mutation import Mutation, install

    install(*[Mutation(name, module, old, new, "a benchmark's comparison") for module, old, new in PLANTS[name]])


if os.environ.get("BATON_PLANTED"):
    plant()
