"""A device whose steps end with somebody's Ctrl-C: parts of a scenario."""

from __future__ import annotations

import signal
from typing import Any

from baton.core.sim.fleet_run.device import TimedDevice
from baton.core.sim.fleet_run.parts import Parts


def make(after: int) -> Parts:
    """After so many launches of a run."""

    class Interrupting(TimedDevice):
        num_left = int(after)

        def launch(self, plan: Any) -> None:
            type(self).num_left -= 1
            if not self.num_left:
                signal.raise_signal(signal.SIGINT)
            super().launch(plan)

    return Parts(device=Interrupting)
