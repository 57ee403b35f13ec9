"""`{"name": …, "parameters": {…}}` as the whole output, as Llama 3 writes it, or behind `<|python_tag|>`."""

from __future__ import annotations

from baton.services.router.tools.call_object import JsonCallParser
from baton.services.router.tools.markers import Markers
from baton.services.router.tools.stream import Reading

TAG = "<|python_tag|>"
STARTING = Markers("{", TAG)
TAGGED = Markers(TAG)
BEHIND_CALL = Markers("{", TAG, ";")


class Llama3JsonParser(JsonCallParser):
    """Without the tag a call may only stand at the start of the output or behind another call; `;` or white space
    separates them. An object without arguments is an answer in JSON, no call. What the tag precedes is a call object
    or text (code for a built-in tool), with the tag."""

    needs_arguments = True

    def _parse(self) -> Reading[None]:
        found = yield from self.gap(STARTING)
        while found or (yield from self.plain(TAGGED, self.text)):
            is_call = yield from self._call(found or TAG)
            found = (yield from self.gap(BEHIND_CALL)) if is_call else ""
            if found == ";":
                found = yield from self.gap(STARTING)

    def _call(self, found: str) -> Reading[bool]:
        """Read a call whose opening brace, or the tag before it, was found."""
        if found == TAG:
            if (yield from self.spaces()) != "{":
                self.give_up()
                return False
            self.hold()
        return (yield from self.call_object())
