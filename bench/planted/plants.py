"""The plants by name: each a list of (module, text, what stands there instead). No import of ours: it runs first."""

from __future__ import annotations

#: prompts' steps are launched first, on the loop, which waits while the device has one; then posts go out
LAUNCH_FIRST = [
    (
        "baton.core.executor.machine",
        "        writer.post_ready(state)\n        while len(state.steps)",
        "        while len(state.steps)",
    ),
    (
        "baton.core.executor.machine",
        "        self._tell_scheduler()\n        self._flush()\n",
        "        writer.post_ready(state)\n        self._tell_scheduler()\n        self._flush()\n",
    ),
    (
        "baton.services.executor.service",
        "        self.compute.submit(command.plan)\n",
        "        self.compute.submit(command.plan)\n"
        "        import time\n"
        "        while self.compute.num_unreported > 1 and self.compute.is_alive:\n"
        "            time.sleep(2e-4)\n",
    ),
]

PLANTS: dict[str, list[tuple[str, str, str]]] = {"launch_first": LAUNCH_FIRST}
