"""Processes that compute runs for another one. Loads nothing of the machines: what is planted in them comes first."""

from __future__ import annotations

import os
import threading
import time

from baton.services.sim.compiled import use_compiled


def begin(is_compiled: bool) -> None:
    """A worker of a process that runs compiled modules, or not, does as that one."""
    if is_compiled:
        use_compiled()
    watch_parent()


def watch_parent() -> None:
    """A worker ends when its parent does, however that ended."""
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1.0)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
