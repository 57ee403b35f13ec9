"""`[TOOL_CALLS][{"name": …, "arguments": {…}}, …]`, and the newer `[TOOL_CALLS]name[ARGS]{…}`, of Mistral."""

from __future__ import annotations

from baton.services.router.tools.call_object import JsonCallParser
from baton.services.router.tools.markers import Markers
from baton.services.router.tools.stream import Reading

OPEN, CALL_ID, ARGS = "[TOOL_CALLS]", "[CALL_ID]", "[ARGS]"
OPENING = Markers(OPEN)
BEHIND_NAME = Markers(CALL_ID, ARGS)
BEHIND_CALL_ID = Markers(ARGS)


def is_in_word(char: str) -> bool:
    """What a function's name, and an id, are made of."""
    return char.isascii() and (char.isalnum() or char in "_-.")


class MistralParser(JsonCallParser):
    """Calls anywhere in the text. In the newer notation `[ARGS]` may be missing; an id behind the name is dropped."""

    def _parse(self) -> Reading[None]:
        found = yield from self.gap(OPENING)
        while found or (yield from self.plain(OPENING, self.text)):
            found = ""
            if (yield from self._calls()):
                found = yield from self.gap(OPENING)

    def _calls(self) -> Reading[bool]:
        """Read what follows the marker."""
        if (yield from self.spaces()) == "[":
            self.hold()
            return (yield from self.call_array())
        return (yield from self._named())

    def _named(self) -> Reading[bool]:
        name = yield from self.hold_while(is_in_word)
        is_call = bool(name) and (yield from self._before_arguments()) and (yield from self.spaces()) == "{"
        if not is_call:
            self.give_up()
            return False
        self.begin(name)
        is_whole = yield from self.json_value(self.arguments)
        self.end(is_whole)
        return is_whole

    def _before_arguments(self) -> Reading[bool]:
        """Hold the markers behind a name; False if another bracket stands there."""
        if (yield from self.peek()) != "[":
            return True
        found = yield from self.marker(BEHIND_NAME)
        if found == CALL_ID:
            yield from self.hold_while(is_in_word)
            if (yield from self.peek()) == "[":
                found = yield from self.marker(BEHIND_CALL_ID)
        return bool(found)
