"""What the parsers of all formats share: reading a model's output once, in pieces, and giving every character away.

A parser is a generator that waits for characters; it never goes back. What it has read and not yet understood is
*held*. Held characters have one of two ends: they are given as text, or they are dropped because they were markup.

What becomes of each character of the output:

- Arguments of a call: `ArgumentsDelta`; verbatim in the JSON formats, made from the values in the others.
- Markup of a call (markers, names, keys, brackets, separators; members of a call object that are neither name nor
  arguments): dropped once the call has begun.
- White space from the start of the output, or from the end of a call, to the next call or to the end after a call:
  dropped, so that an output of calls alone has no text.
- Anything else: `TextDelta`, verbatim. This includes what looked like a call and turned out to be none before its
  arguments began (text that was held is not searched for another call), and it includes what follows when a call that
  has begun is broken by a character that cannot be there: its arguments so far stay delivered, `CallEnded` says that it
  is not complete, what was held and everything from that character on is text, in which a new call may begin.
- At the end of the output a call whose arguments are whole is complete even if markup that closes it is missing (its
  beginning is dropped); a call in the middle of its arguments ends as not complete, and what is held is text.

Names are passed on as the model wrote them: whether the request offers such a function is for the caller to say.
The events, with neighbouring deltas joined, do not depend on how the output was cut. Nothing raises.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import TypeVar

from baton.core.errors import InvariantViolated
from baton.services.router.tools.events import ArgumentsDelta, CallBegun, CallEnded, TextDelta, ToolEvent, merged
from baton.services.router.tools.markers import Markers

Result = TypeVar("Result")
Reading = Generator[None, None, Result]  #: waits whenever every character that has come is read
SPACE = frozenset(" \t\r\n")


class ToolParser:
    """`push` the output as it comes, then `finish` once. Subclasses say in `_parse` what their format is."""

    def __init__(self) -> None:
        self._text, self._at = "", 0
        self._is_end = False
        self._held: list[str] = []
        self._events: list[ToolEvent] = []
        self._num_calls = 0
        self._reading = self._parse()
        next(self._reading)

    def push(self, text: str) -> list[ToolEvent]:
        """What became certain with the next piece of the output."""
        if self._is_end:
            raise InvariantViolated("output after its end")
        self._text, self._at = text, 0
        next(self._reading)
        return self._take()

    def finish(self) -> list[ToolEvent]:
        """The output has ended."""
        self._is_end = True
        next(self._reading, None)
        return self._take()

    def _parse(self) -> Reading[None]:
        """Read all of the output."""
        raise NotImplementedError

    def _take(self) -> list[ToolEvent]:
        events, self._events = merged(self._events), []
        return events

    # Reading

    def more(self) -> Reading[bool]:
        """Wait for an unread character; False at the end of the output."""
        while self._at == len(self._text):
            if self._is_end:
                return False
            yield
        return True

    def peek(self) -> Reading[str]:
        """The next character, unread; empty at the end."""
        return self._text[self._at] if (yield from self.more()) else ""

    def hold(self) -> None:
        """Read the character that was peeked at."""
        self._held.append(self._text[self._at])
        self._at += 1

    def spaces(self) -> Reading[str]:
        """Hold white space; the next character, unread."""
        while (char := (yield from self.peek())) in SPACE:
            self.hold()
        return char

    def hold_while(self, allowed: Callable[[str], bool]) -> Reading[str]:
        """Hold the characters that are allowed; returns them."""
        start = len(self._held)
        while (char := (yield from self.peek())) and allowed(char):
            self.hold()
        return "".join(self._held[start:])

    def marker(self, markers: Markers) -> Reading[str]:
        """Hold the marker that comes next; empty if none comes (what it had of one is held)."""
        begun = ""
        while (char := (yield from self.peek())) and markers.is_begun_by(begun + char):
            self.hold()
            begun += char
            if begun in markers:
                return begun
        return ""

    def gap(self, markers: Markers) -> Reading[str]:
        """At the start or behind a call: the marker that comes after white space, both held, or empty if text does."""
        yield from self.spaces()
        num_held = len(self._held)
        found = yield from self.marker(markers)
        if not found:
            is_layout = self._num_calls > 0 and self.is_at_end and len(self._held) == num_held
            self.give_up(is_layout)
        return found

    def plain(self, markers: Markers, give: Callable[[str], None]) -> Reading[str]:
        """Give what comes before a marker away; returns that marker, held, or empty at the end, all given."""
        begun = ""
        while (yield from self.more()):
            if not begun:
                start, self._at = self._at, markers.find_first(self._text, self._at)
                if self._at > start:
                    give(self._text[start : self._at])
                if self._at == len(self._text):
                    continue
            begun += self._text[self._at]
            self._at += 1
            if begun in markers:
                self._held.append(begun)
                return begun
            num_given = len(begun) - markers.num_begun(begun)
            if num_given:
                give(begun[:num_given])
                begun = begun[num_given:]
        if begun:
            give(begun)
        return ""

    # Telling

    @property
    def is_at_end(self) -> bool:
        """Whether every character of the whole output is read."""
        return self._is_end and self._at == len(self._text)

    def text(self, text: str) -> None:
        self._events.append(TextDelta(text))

    def drop(self) -> None:
        """What is held was markup."""
        self._held.clear()

    def give_up(self, is_markup_at_end: bool = False) -> None:
        """What is held is text, unless it closes a whole call and only the end of the output cut it off."""
        if self._held and not (is_markup_at_end and self.is_at_end):
            self.text("".join(self._held))
        self._held.clear()

    def begin(self, name: str) -> None:
        """A call is certain: what is held was its markup."""
        self.drop()
        self._events.append(CallBegun(self._num_calls, name))
        self._num_calls += 1

    def arguments(self, json_text: str) -> None:
        """The next piece of the last call's arguments."""
        self._events.append(ArgumentsDelta(self._num_calls - 1, json_text))

    def end(self, is_complete: bool) -> None:
        """The last call has ended."""
        self._events.append(CallEnded(self._num_calls - 1, is_complete))
