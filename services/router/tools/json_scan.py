"""Checks JSON that arrives in pieces, reading each character once. Strict: what RFC 8259 calls a JSON text."""

from __future__ import annotations

import enum
import re
from collections.abc import Callable

MAX_DEPTH = 64  #: a value that nests deeper counts as malformed: whoever reads it may recurse
SPACE = " \t\r\n"
WORDS = {"t": "rue", "f": "alse", "n": "ull"}
IN_STRING = re.compile(r'[^"\\\x00-\x1f]*')
DIGITS = "0123456789"
HEX_DIGITS = frozenset(DIGITS + "abcdefABCDEF")
#: state of a number → characters that may follow → state. States are named by what was read last.
NUMBER = {
    "sign": {"0": "zero", "123456789": "int"},
    "zero": {".": "point", "eE": "exp"},
    "int": {DIGITS: "int", ".": "point", "eE": "exp"},
    "point": {DIGITS: "fraction"},
    "fraction": {DIGITS: "fraction", "eE": "exp"},
    "exp": {"+-": "exp sign", DIGITS: "exponent"},
    "exp sign": {DIGITS: "exponent"},
    "exponent": {DIGITS: "exponent"},
}
NEXT_IN_NUMBER = {state: {char: to for chars, to in row.items() for char in chars} for state, row in NUMBER.items()}
WHOLE_NUMBER = frozenset({"zero", "int", "fraction", "exponent"})


class Scan(enum.Enum):
    MORE = "more"  #: the value goes on
    DONE = "done"  #: the value is whole
    BAD = "bad"  #: the character at the returned position cannot be there


class JsonScanner:
    """One JSON value. `state` says how far it is; after DONE or BAD nothing may be fed."""

    def __init__(self) -> None:
        self.state = Scan.MORE
        self._stack: list[str] = []  #: open brackets
        self._expects = "value"  #: or "first" (a key, a value or the closing bracket), "key", "colon", "comma"
        self._is_key = False
        self._rest = ""  #: of a word such as `true`
        self._num_hex = 0  #: digits that a \u escape still needs
        self._number = ""
        self._mode: Callable[[str, int], int] = self._between

    def feed(self, text: str, at: int) -> int:
        """Read on from `at`; where it stopped: behind the value, at the bad character, or the end of the text."""
        while at < len(text) and self.state is Scan.MORE:
            at = self._mode(text, at)
        return at

    def is_whole(self) -> bool:
        """Whether the value is whole if nothing follows: a number shows its end only by what comes next."""
        return self.state is Scan.DONE or (not self._stack and self._number in WHOLE_NUMBER)

    def _bad(self, at: int) -> int:
        self.state = Scan.BAD
        return at

    def _value_ended(self) -> None:
        self._mode, self._expects = self._between, "comma"
        if not self._stack:
            self.state = Scan.DONE

    def _between(self, text: str, at: int) -> int:
        char = text[at]
        if char in SPACE:
            return at + 1
        if self._expects == "colon":
            self._expects = "value"
            return at + 1 if char == ":" else self._bad(at)
        if char in "]}":
            return self._close(char, at)
        if self._expects == "comma":
            self._expects = "key" if self._stack[-1] == "{" else "value"
            return at + 1 if char == "," else self._bad(at)
        if self._expects == "key" or (self._expects == "first" and self._stack[-1] == "{"):
            self._is_key = True
            return self._open_string(at) if char == '"' else self._bad(at)
        return self._begin_value(char, at)

    def _close(self, char: str, at: int) -> int:
        if self._expects not in ("first", "comma") or self._stack[-1] + char not in ("{}", "[]"):
            return self._bad(at)
        self._stack.pop()
        self._value_ended()
        return at + 1

    def _begin_value(self, char: str, at: int) -> int:
        if char == '"':
            return self._open_string(at)
        if char in "{[":
            if len(self._stack) == MAX_DEPTH:
                return self._bad(at)
            self._stack.append(char)
            self._expects = "first"
        elif char in WORDS:
            self._rest, self._mode = WORDS[char], self._in_word
        elif char in "-" + DIGITS:
            self._number, self._mode = {"-": "sign", "0": "zero"}.get(char, "int"), self._in_number
        else:
            return self._bad(at)
        return at + 1

    def _open_string(self, at: int) -> int:
        self._mode = self._in_string
        return at + 1

    def _in_string(self, text: str, at: int) -> int:
        found = IN_STRING.match(text, at)
        at = found.end() if found else at
        if at == len(text):
            return at
        if text[at] == "\\":
            self._mode = self._in_escape
        elif text[at] != '"':
            return self._bad(at)
        elif self._is_key:
            self._mode, self._expects, self._is_key = self._between, "colon", False
        else:
            self._value_ended()
        return at + 1

    def _in_escape(self, text: str, at: int) -> int:
        char = text[at]
        if self._num_hex:
            self._num_hex -= 1
            if char not in HEX_DIGITS:
                return self._bad(at)
        elif char == "u":
            self._num_hex = 4
        elif char not in '"\\/bfnrt':
            return self._bad(at)
        if not self._num_hex:
            self._mode = self._in_string
        return at + 1

    def _in_word(self, text: str, at: int) -> int:
        if text[at] != self._rest[0]:
            return self._bad(at)
        self._rest = self._rest[1:]
        if not self._rest:
            self._value_ended()
        return at + 1

    def _in_number(self, text: str, at: int) -> int:
        following = NEXT_IN_NUMBER[self._number].get(text[at])
        if following is not None:
            self._number = following
            return at + 1
        if self._number not in WHOLE_NUMBER:
            return self._bad(at)
        self._number = ""
        self._value_ended()
        return at


def is_json(text: str) -> bool:
    """Whether it is one JSON value and nothing else but white space around it."""
    scanner = JsonScanner()
    rest = text[scanner.feed(text, 0) :]
    return scanner.is_whole() and not rest.strip(SPACE)
