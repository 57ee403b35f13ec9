"""The plants by name: each a list of (module, text, what stands there instead). No import of ours: it runs first."""

from __future__ import annotations

#: prompts' steps are launched first, on the loop, which waits while the device has one; then posts go out
LAUNCH_FIRST = [
    (
        "baton.core.executor.machine",
        "        writer.post_ready(state)\n        joining.admit(state)\n        for lane, steps",
        "        joining.admit(state)\n        for lane, steps",
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
        "        while self.compute.threads[0].num_unreported > 1 and self.compute.is_alive:\n"
        "            time.sleep(2e-4)\n",
    ),
]

#: the prefill executor computes nothing and writes KV of the model's shape
WRITER_ALONE = [
    (
        "baton.services.executor.service",
        '    if told.kind == "fake":\n',
        "    import writer_device\n"
        "    if writer_device.is_writer():\n"
        "        return writer_device.make(told, folder)\n"
        '    if told.kind == "fake":\n',
    )
]
#: and what it would write has landed at once, unwritten
LANDS_AT_ONCE = [
    (
        "baton.services.executor.transfer.writer",
        "        agent = link.connected_agent()\n        pieces = ",
        "        for one in queued:\n"
        "            self._post_event(PieceLanded(one.piece.piece_id, 0.0, time.monotonic()))\n"
        "        self._counters.num_posted_pieces += len(queued)\n"
        "        self._counters.num_landed_pieces += len(queued)\n"
        "        return\n"
        "        agent = link.connected_agent()\n        pieces = ",
    )
]

PLANTS: dict[str, list[tuple[str, str, str]]] = {
    "launch_first": LAUNCH_FIRST,
    "writer": WRITER_ALONE,
    "writer_at_once": WRITER_ALONE + LANDS_AT_ONCE,
}
