"""`<tool_call>{"name": …, "arguments": {…}}</tool_call>`, as Hermes and Qwen write it; SmolLM2 writes an array."""

from __future__ import annotations

from baton.services.router.tools.call_object import JsonCallParser
from baton.services.router.tools.markers import Markers
from baton.services.router.tools.stream import Reading

OPEN, CLOSE = "<tool_call>", "</tool_call>"
OPENING = Markers(OPEN)
BEHIND_CALL = Markers(OPEN, CLOSE)


class HermesParser(JsonCallParser):
    """Calls anywhere in the text. The closing marker may be missing; one that closes no call is text."""

    def _parse(self) -> Reading[None]:
        found = yield from self.gap(OPENING)
        while found or (yield from self.plain(OPENING, self.text)):
            found = ""
            if (yield from self._block()):
                found = yield from self.gap(BEHIND_CALL)
            if found == CLOSE:
                self.drop()
                found = yield from self.gap(OPENING)

    def _block(self) -> Reading[bool]:
        """Read what follows the opening marker."""
        char = yield from self.spaces()
        if char not in {"{", "["}:
            self.give_up()
            return False
        self.hold()
        return (yield from self.call_object() if char == "{" else self.call_array())
