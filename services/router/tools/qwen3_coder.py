"""`<tool_call><function=NAME><parameter=KEY>VALUE</parameter>…</function></tool_call>`, as Qwen3-Coder writes calls."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from baton.services.router.tools.markers import Markers
from baton.services.router.tools.schema_types import STRING, bare_value_json, property_types
from baton.services.router.tools.stream import Reading, ToolParser

OPEN, CLOSE, FUNCTION = "<tool_call>", "</tool_call>", "<function="
PARAMETER, END_FUNCTION = "<parameter=", "</function>"
OPENING = Markers(OPEN, FUNCTION)
BEHIND_OPEN = Markers(FUNCTION)
IN_FUNCTION = Markers(PARAMETER, END_FUNCTION)
END_VALUE = Markers("</parameter>", "\n</parameter>")
BEHIND_CALL = Markers(OPEN, FUNCTION, CLOSE)


def is_in_name(char: str) -> bool:
    return char not in '<>\n"'


class Qwen3CoderParser(ToolParser):
    """Calls anywhere in the text; `<tool_call>` around a function may be missing.

    A value is what stands between its markers without one line break on either side. It becomes JSON by the schema of
    the function's parameters: where a string is allowed, or nothing is known, it is a string and passed on as it
    comes; other values are held until they are whole. A parameter that comes twice breaks the call.
    """

    def __init__(self, schemas: Mapping[str, Any] | None = None) -> None:
        """`schemas`: JSON schema of the parameters, by function."""
        self._types = {name: property_types(schema) for name, schema in (schemas or {}).items()}
        super().__init__()

    def _parse(self) -> Reading[None]:
        found = yield from self.gap(OPENING)
        while found or (found := (yield from self.plain(OPENING, self.text))):
            is_call = yield from self._function(found)
            found = (yield from self.gap(BEHIND_CALL)) if is_call else ""
            if found == CLOSE:
                self.drop()
                found = yield from self.gap(OPENING)

    def _function(self, found: str) -> Reading[bool]:
        """Read a function whose first marker was found; False if it broke off, and what was held is given away."""
        if found == OPEN:
            yield from self.spaces()
            found = yield from self.marker(BEHIND_OPEN)
        name = (yield from self._name()) if found else ""
        if not name:
            self.give_up()
            return False
        self.begin(name)
        self.arguments("{")
        is_whole = yield from self._parameters(self._types.get(name, {}))
        if is_whole:
            self.drop()
            self.arguments("}")
        self.end(is_whole)
        self.give_up()
        return is_whole

    def _name(self) -> Reading[str]:
        """Hold a name up to its `>`; empty if it has none."""
        name = yield from self.hold_while(is_in_name)
        if (yield from self.peek()) != ">":
            return ""
        self.hold()
        return name

    def _parameters(self, types: dict[str, frozenset[str]]) -> Reading[bool]:
        """Read up to the end of the function; False if something else stands there or the output ends."""
        seen: set[str] = set()
        while True:
            yield from self.spaces()
            found = yield from self.marker(IN_FUNCTION)
            if found != PARAMETER:
                return bool(found)
            key = yield from self._name()
            if not key or key in seen:
                return False
            self.drop()
            self.arguments((", " if seen else "") + json.dumps(key, ensure_ascii=False) + ": ")
            seen.add(key)
            if (yield from self.peek()) == "\n":
                self.hold()
            if not (yield from self._value(types.get(key, STRING))):
                return False

    def _value(self, types: frozenset[str]) -> Reading[bool]:
        """Read a value and its end marker; False if the output ends first."""
        if "string" in types:
            self.drop()
            self.arguments('"')
        found = yield from self.plain(END_VALUE, self._string_piece if "string" in types else self._held.append)
        if found:
            value = "".join(self._held).removeprefix("\n").removesuffix(found)
            self.drop()
            self.arguments('"' if "string" in types else bare_value_json(value, types))
        return bool(found)

    def _string_piece(self, text: str) -> None:
        self.arguments(json.dumps(text, ensure_ascii=False)[1:-1])
