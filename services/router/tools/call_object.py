"""Calls written as JSON objects `{"name": …, "arguments": {…}}`, one or an array of them."""

from __future__ import annotations

import json
from collections.abc import Callable

from baton.services.router.tools.json_scan import JsonScanner, Scan
from baton.services.router.tools.stream import Reading, ToolParser

ARGUMENT_KEYS = frozenset({"arguments", "parameters"})


class JsonCallParser(ToolParser):
    """Members may come in any order; arguments are passed on as they come where the name precedes them. A second name,
    second arguments and other members are read over. Arguments that are no JSON object make it no call."""

    needs_arguments = False  #: whether an object without arguments is no call, or one with `{}`

    def __init__(self) -> None:
        self._name = ""
        self._early = ""  #: arguments that came before the name
        self._is_told = False  #: begun and ended
        super().__init__()

    def call_array(self) -> Reading[bool]:
        """Read calls after their `[`, up to `]`. False: it was none or broke off, and what was held is given away."""
        is_behind_call = False
        while True:
            if (yield from self.spaces()) != "{":
                self.give_up(is_markup_at_end=is_behind_call)
                return False
            self.hold()
            if not (yield from self.call_object()):
                return False
            is_behind_call = True
            char = yield from self.spaces()
            if char not in {",", "]"}:
                self.give_up(is_markup_at_end=True)
                return False
            self.hold()
            if char == "]":
                self.drop()
                return True

    def call_object(self) -> Reading[bool]:
        """Read a call after its `{`, up to `}`. False: as for an array."""
        self._name, self._early, self._is_told = "", "", False
        is_closed = yield from self._members()
        if is_closed and not self._is_told:
            is_closed = bool(self._name) and not (self.needs_arguments and not self._early)
            if is_closed:
                self.begin(self._name)
                self.arguments(self._early or "{}")
                self.end(is_complete=True)
        if not is_closed:
            self.give_up(is_markup_at_end=self._is_told)
        self.drop()
        return is_closed

    def _members(self) -> Reading[bool]:
        """Read members up to the closing brace; False if it is malformed or not closed."""
        while True:
            key = yield from self._string()
            if key is None or (yield from self.spaces()) != ":":
                return False
            self.hold()
            if not (yield from self._member(key)):
                return False
            char = yield from self.spaces()
            if char not in {",", "}"}:
                return False
            self.hold()
            if char == "}":
                return True

    def _member(self, key: str) -> Reading[bool]:
        """Read the value of one member."""
        char = yield from self.spaces()
        if key == "name" and not self._name:
            self._name = (yield from self._string()) or ""
            return bool(self._name)
        if key not in ARGUMENT_KEYS or self._early or self._is_told:
            return (yield from self.json_value(self._held.append))
        if char != "{":
            return False
        if self._name:
            self.begin(self._name)
            self._is_told = yield from self.json_value(self.arguments)
            self.end(self._is_told)
            return self._is_told
        start = len(self._held)
        is_whole = yield from self.json_value(self._held.append)
        self._early = "".join(self._held[start:]) if is_whole else ""
        return is_whole

    def json_value(self, give: Callable[[str], None]) -> Reading[bool]:
        """Give a JSON value away as it comes; False if it is malformed or the output ends first."""
        scanner = JsonScanner()
        while scanner.state is Scan.MORE and (yield from self.more()):
            start = self._at
            self._at = scanner.feed(self._text, start)
            if self._at > start:
                give(self._text[start : self._at])
        return scanner.state is Scan.DONE

    def _string(self) -> Reading[str | None]:
        """Hold a JSON string after white space; its value, or None if there is none that can be shown."""
        if (yield from self.spaces()) != '"':
            return None
        start = len(self._held)
        if not (yield from self.json_value(self._held.append)):
            return None
        value: str = json.loads("".join(self._held[start:]))
        return None if any("\ud800" <= char <= "\udfff" for char in value) else value
