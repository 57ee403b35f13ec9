"""`[name(key="value", …), …]` as the whole output: calls in Python's notation, as Llama 3.2 and Llama 4 write them."""

from __future__ import annotations

import json

from baton.services.router.tools.json_scan import Scan
from baton.services.router.tools.markers import Markers
from baton.services.router.tools.python_literal import STARTS, LiteralReader
from baton.services.router.tools.stream import Reading, ToolParser

OPEN, CLOSE = "<|python_start|>", "<|python_end|>"
STARTING = Markers("[", OPEN)
OPENING = Markers(OPEN)
BEHIND_CALL = Markers(OPEN, CLOSE)


def is_in_name(char: str) -> bool:
    """Names of functions, more than Python allows: OpenAI's may have a dash, and models write dots."""
    return char.isascii() and (char.isalnum() or char in "_-.")


class PythonicParser(ToolParser):
    """One list of calls at the start of the output or behind `<|python_start|>`; arguments by keyword only.

    A call begins with its first value, or its `)` where it has no arguments; before that the list is text. A keyword
    that comes twice breaks the call.
    """

    def _parse(self) -> Reading[None]:
        found = yield from self.gap(STARTING)
        while found or (found := (yield from self.plain(OPENING, self.text))):
            is_list = yield from self._list(found)
            found = (yield from self.gap(BEHIND_CALL)) if is_list else ""
            if found == CLOSE:
                self.drop()
                found = yield from self.gap(OPENING)

    def _list(self, found: str) -> Reading[bool]:
        """Read a list whose bracket, or the marker before it, was found. False: what was held is given away."""
        if found == OPEN:
            if (yield from self.spaces()) != "[":
                self.give_up()
                return False
            self.hold()
        is_behind_call = False
        while (yield from self.spaces()) and (yield from self._call()):
            is_behind_call = True
            char = yield from self.spaces()
            if char not in {",", "]"}:
                break
            self.hold()
            if char == "]":
                self.drop()
                return True
        self.give_up(is_markup_at_end=is_behind_call)
        return False

    def _call(self) -> Reading[bool]:
        """Read `name(…)`; False if it is malformed or the output ends first, and what was held is given away."""
        name = yield from self.hold_while(is_in_name)
        is_whole = False
        if name and (yield from self.spaces()) == "(":
            self.hold()
            is_whole = yield from self._keywords(name)
        self.give_up()
        return is_whole

    def _keywords(self, name: str) -> Reading[bool]:
        """Read `key=value` pairs up to the closing bracket; begins and ends the call."""
        seen: set[str] = set()
        while (char := (yield from self.spaces())) != ")":
            key = yield from self._keyword()
            if not key or key in seen:
                break
            if not seen:
                self.begin(name)
            self.drop()
            self.arguments(("{" if not seen else ", ") + json.dumps(key) + ": ")
            seen.add(key)
            char = (yield from self.spaces()) if (yield from self._value()) else ""
            if char == ",":
                self.hold()
            elif char != ")":
                break
        if char == ")":
            self.hold()
            if not seen:
                self.begin(name)
            self.drop()
            self.arguments("}" if seen else "{}")
        if char == ")" or seen:
            self.end(is_complete=char == ")")
        return char == ")"

    def _keyword(self) -> Reading[str]:
        """Hold `key=` before a value; empty if something else stands there."""
        key = yield from self.hold_while(lambda char: char.isascii() and (char.isalnum() or char == "_"))
        if not key or (yield from self.spaces()) != "=":
            return ""
        self.hold()
        return key if (yield from self.spaces()) in STARTS else ""

    def _value(self) -> Reading[bool]:
        """Give the JSON of a literal; False if it is malformed or the output ends first."""
        reader = LiteralReader(self.arguments)
        while reader.state is Scan.MORE and (yield from self.more()):
            self._at = reader.feed(self._text, self._at)
        if reader.pending:
            self._held.append(reader.pending)
        return reader.state is Scan.DONE
