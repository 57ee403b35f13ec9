"""From a Python literal that arrives in pieces to JSON, reading each character once; nothing is evaluated.

Understood: strings in either quotes with Python's escapes, decimal numbers, `True`, `False`, `None` (and JSON's
spellings), lists, and dictionaries with strings as keys; trailing commas. Not: tuples, sets, prefixes of strings,
triple quotes, other notations of numbers, expressions.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable

from baton.services.router.tools.json_scan import HEX_DIGITS, MAX_DEPTH, SPACE, Scan

NUMBER = re.compile(r"[+-]?(?:(0+|[1-9][0-9]*)(?:\.([0-9]*))?|\.([0-9]+))([eE][+-]?[0-9]+)?")
WORDS = {"True": "true", "False": "false", "None": "null", "true": "true", "false": "false", "null": "null"}
ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "v": "\v", "a": "\a", "\n": ""}
ESCAPES |= {char: char for char in "\\'\""}
OCTAL_DIGITS = frozenset("01234567")
NUM_HEX = {"x": 2, "u": 4, "U": 8}
STARTS = frozenset("\"'[{+-.0123456789TFNtfn")  #: what a literal begins with
IN_STRING = {quote: re.compile(rf"[^\\{quote}]+") for quote in "'\""}


def json_chars(text: str) -> str:
    """Text as it stands within a JSON string; a lone surrogate is escaped, since it is no text."""
    return json.dumps(text, ensure_ascii=any("\ud800" <= char <= "\udfff" for char in text))[1:-1]


def is_in_word(char: str) -> bool:
    return char == "_" or char.isalnum()


def json_number(text: str) -> str | None:
    """JSON of a Python number, or None if it is none."""
    found = NUMBER.fullmatch(text)
    if found is None:
        return None
    whole, fraction, bare_fraction, exponent = found.groups()
    digits = "0" if whole is None or whole.startswith("0") else whole
    point = "" if fraction is None and bare_fraction is None else "." + (fraction or bare_fraction or "0")
    return ("-" if text[0] == "-" else "") + digits + point + (exponent or "")


class LiteralReader:
    """One literal. `give` gets its JSON; `state` says how far it is; after DONE or BAD nothing may be fed."""

    def __init__(self, give: Callable[[str], None]) -> None:
        self.state = Scan.MORE
        self._give = give
        self._stack: list[str] = []  #: open brackets
        self._expects = "value"  #: or "first" or "next" (an item or the closing bracket), "colon", "comma"
        self._is_key = False
        self._quote = ""
        self._token: list[str] = []  #: of a word or number, or an escape after its backslash
        self._mode: Callable[[str, int], int] = self._between

    def feed(self, text: str, at: int) -> int:
        """Read on from `at`; where it stopped: behind the literal, at the bad character, or the end of the text."""
        while at < len(text) and self.state is Scan.MORE:
            at = self._mode(text, at)
        return at

    @property
    def pending(self) -> str:
        """What was read and is not in the JSON yet: a number, word or escape that is not whole."""
        return ("\\" if self._mode == self._in_escape else "") + "".join(self._token)

    def _bad(self, at: int) -> int:
        self.state = Scan.BAD
        return at

    def _ended(self) -> None:
        self._mode, self._expects = self._between, "comma"
        if not self._stack:
            self.state = Scan.DONE

    def _between(self, text: str, at: int) -> int:
        char = text[at]
        if char in SPACE:
            return at + 1
        if self._expects == "colon":
            self._expects = "value"
            self._give(": " if char == ":" else "")
            return at + 1 if char == ":" else self._bad(at)
        if self._stack and char in "]}":
            return self._close(char, at)
        if self._expects == "comma":
            self._expects = "next"
            return at + 1 if char == "," else self._bad(at)
        return self._begin(char, at)

    def _close(self, char: str, at: int) -> int:
        if self._expects == "value" or self._stack[-1] + char not in ("{}", "[]"):
            return self._bad(at)
        self._stack.pop()
        self._give(char)
        self._ended()
        return at + 1

    def _begin(self, char: str, at: int) -> int:
        """An item of the innermost bracket, a value behind a colon, or the whole literal."""
        is_key = self._expects != "value" and self._stack[-1] == "{"
        is_deep = char in "[{" and len(self._stack) == MAX_DEPTH
        if char not in STARTS or is_deep or (is_key and char not in "'\""):
            return self._bad(at)
        if self._expects == "next":
            self._give(", ")
        if char in "'\"":
            self._quote, self._is_key, self._mode = char, is_key, self._in_string
            self._give('"')
        elif char in "[{":
            self._stack.append(char)
            self._expects = "first"
            self._give(char)
        else:
            self._mode = self._in_word if char.isalpha() else self._in_number
            return at
        return at + 1

    def _in_string(self, text: str, at: int) -> int:
        if text[at] == "\\":
            self._mode = self._in_escape
        elif text[at] != self._quote:
            found = IN_STRING[self._quote].match(text, at)
            end = found.end() if found else at + 1
            self._give(json_chars(text[at:end]))
            return end
        else:
            self._give('"')
            if self._is_key:
                self._mode, self._expects = self._between, "colon"
            else:
                self._ended()
        return at + 1

    def _in_escape(self, text: str, at: int) -> int:
        """A backslash stays where no escape follows it, as in Python. Behind octal digits the character is not read."""
        char, kind = text[at], self._token[0] if self._token else text[at]
        is_octal = kind in OCTAL_DIGITS
        if is_octal and char not in OCTAL_DIGITS:
            self._escaped(chr(int("".join(self._token), 8)))
            return at
        digits = "".join(self._token[1:]) + char
        if kind in NUM_HEX and self._token:
            is_whole = len(digits) == NUM_HEX[kind]
            if char not in HEX_DIGITS or (is_whole and int(digits, 16) > 0x10FFFF):
                return self._bad(at)
            if is_whole:
                self._escaped(chr(int(digits, 16)))
                return at + 1
        elif is_octal and len(self._token) == 2:
            self._escaped(chr(int("".join(self._token) + char, 8)))
            return at + 1
        elif not is_octal and kind not in NUM_HEX:
            self._escaped(ESCAPES.get(kind, "\\" + kind))
            return at + 1
        self._token.append(char)
        return at + 1

    def _escaped(self, chars: str) -> None:
        """An escape is whole: the string goes on."""
        self._give(json_chars(chars))
        self._token.clear()
        self._mode = self._in_string

    def _in_number(self, text: str, at: int) -> int:
        return self._in_token(text, at, text[at] in "+-." or is_in_word(text[at]), json_number)

    def _in_word(self, text: str, at: int) -> int:
        return self._in_token(text, at, is_in_word(text[at]), WORDS.get)

    def _in_token(self, text: str, at: int, is_part: bool, to_json: Callable[[str], str | None]) -> int:
        if is_part:
            self._token.append(text[at])
            return at + 1
        found = to_json("".join(self._token))
        if found is None:
            return self._bad(at)
        self._token.clear()
        self._give(found)
        self._ended()
        return at
