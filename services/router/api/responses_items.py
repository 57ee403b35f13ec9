"""The output of a model as items: messages and calls, in the order in which they were written."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from typing import Any

from baton.core.errors import InvariantViolated
from baton.services.router.api.answers import ChosenTokenScore
from baton.services.router.api.ask import ToolPlan
from baton.services.router.api.responses_answers import OutputCall, OutputItem, OutputMessage, OutputText
from baton.services.router.api.responses_bodies import ItemStatus
from baton.services.router.api.responses_events import (
    ArgumentsAdded,
    ArgumentsDone,
    Event,
    ItemAdded,
    ItemDone,
    PartAdded,
    PartDone,
    TextAdded,
    TextDone,
)
from baton.services.router.tools.call_ids import new_call_id
from baton.services.router.tools.events import ArgumentsDelta, CallBegun, CallEnded, TextDelta, ToolEvent
from baton.services.router.tools.parsers import new_parser


class OpenMessage:
    """A message whose text is being written."""

    def __init__(self, index: int, numbers: Iterator[int]) -> None:
        self._id = "msg_" + secrets.token_hex(12)
        self._place: dict[str, Any] = {"item_id": self._id, "output_index": index}
        self._numbers = numbers
        self._text: list[str] = []
        self._scores: list[ChosenTokenScore] = []

    def begin(self) -> list[Event]:
        part = OutputText(text="", annotations=[], logprobs=[])
        item = OutputMessage(id=self._id, status="in_progress", content=[])
        return [
            ItemAdded(sequence_number=next(self._numbers), output_index=self._place["output_index"], item=item),
            PartAdded(sequence_number=next(self._numbers), part=part, **self._place),
        ]

    def add(self, text: str, scores: list[ChosenTokenScore]) -> Event:
        self._text.append(text)
        self._scores += scores
        return TextAdded(sequence_number=next(self._numbers), delta=text, logprobs=scores, **self._place)

    def item(self, status: ItemStatus) -> OutputMessage:
        part = OutputText(text="".join(self._text), annotations=[], logprobs=self._scores)
        return OutputMessage(id=self._id, status=status, content=[part])

    def end(self, item: OutputMessage) -> list[Event]:
        """What comes before the end of the item."""
        (part,) = item.content
        number = next(self._numbers)
        return [
            TextDone(sequence_number=number, text=part.text, logprobs=part.logprobs, **self._place),
            PartDone(sequence_number=next(self._numbers), part=part, **self._place),
        ]


class OpenCall:
    """A call whose arguments are being written."""

    def __init__(self, index: int, numbers: Iterator[int], call_id: str, name: str) -> None:
        self._id = "fc_" + secrets.token_hex(12)
        self._place: dict[str, Any] = {"item_id": self._id, "output_index": index}
        self._numbers = numbers
        self._call_id = call_id
        self._name = name
        self._arguments: list[str] = []

    def begin(self) -> list[Event]:
        item, index = self.item("in_progress"), self._place["output_index"]
        return [ItemAdded(sequence_number=next(self._numbers), output_index=index, item=item)]

    def add(self, json_text: str) -> Event:
        self._arguments.append(json_text)
        return ArgumentsAdded(sequence_number=next(self._numbers), delta=json_text, **self._place)

    def item(self, status: ItemStatus) -> OutputCall:
        arguments = "".join(self._arguments)
        return OutputCall(id=self._id, call_id=self._call_id, name=self._name, arguments=arguments, status=status)

    def end(self, item: OutputCall) -> list[Event]:
        """What comes before the end of the item."""
        number = next(self._numbers)
        return [ArgumentsDone(sequence_number=number, name=item.name, arguments=item.arguments, **self._place)]


class OutputItems:
    """Text in; events for a stream out, and all of it as items. What they add up to does not depend on how the text was
    cut; where it has scores and may have calls, it comes token by token."""

    def __init__(self, plan: ToolPlan | None, numbers: Iterator[int]) -> None:
        self.ended: list[OutputItem] = []
        self._plan = plan
        self._parser = None if plan is None else new_parser(plan.format, plan.schemas, plan.is_parallel)
        self._numbers = numbers
        self._open: OpenMessage | OpenCall | None = None
        self._held: list[tuple[str, ChosenTokenScore]] = []  #: tokens that may be text or markup

    def push(self, text: str, scores: list[ChosenTokenScore]) -> list[Event]:
        """What this text, of these tokens, adds."""
        if self._parser is None:
            return self._add_text(text, scores)
        self._held += [(text, score) for score in scores]
        return self._apply(self._parser.push(text))

    def finish(self, status: ItemStatus) -> list[Event]:
        """The output has ended; `status` is that of a message that was being written. There is at least one item."""
        events = [] if self._parser is None else self._apply(self._parser.finish())
        if isinstance(self._open, OpenMessage) or (self._open is None and not self.ended):
            message, begun = self._message()
            events += begun
            if self._held:
                events.append(message.add("", [score for _, score in self._held]))
        return events + self._close(status)

    def so_far(self) -> list[OutputItem]:
        """All items, where the output breaks off here."""
        return self.ended if self._open is None else [*self.ended, self._open.item("incomplete")]

    def _apply(self, found: list[ToolEvent]) -> list[Event]:
        events: list[Event] = []
        for event in found:
            if isinstance(event, TextDelta):
                events += self._add_text(event.text, self._scores_of(event.text))
            else:
                self._held = []
                events += self._add_to_calls(event)
        return events

    def _scores_of(self, text: str) -> list[ChosenTokenScore]:
        """Of the tokens that wrote this text. Those before them were markup, those after them stay held."""
        start = max(0, "".join(piece for piece, _ in self._held).rfind(text))
        end, at = start + len(text), 0
        scores, held = [], []
        for piece, score in self._held:
            if at >= end:
                held.append((piece, score))
            elif at >= start or at + len(piece) > start:
                scores.append(score)
            at += len(piece)
        self._held = held
        return scores

    def _add_text(self, text: str, scores: list[ChosenTokenScore]) -> list[Event]:
        if not text and not scores:
            return []
        message, events = self._message()
        return [*events, message.add(text, scores)]

    def _message(self) -> tuple[OpenMessage, list[Event]]:
        """The one that is open, or one that begins."""
        if isinstance(self._open, OpenMessage):
            return self._open, []
        events = self._close("completed")
        self._open = message = OpenMessage(len(self.ended), self._numbers)
        return message, events + message.begin()

    def _add_to_calls(self, event: CallBegun | ArgumentsDelta | CallEnded) -> list[Event]:
        if isinstance(event, CallBegun):
            events = self._close("completed")
            self._open = call = OpenCall(len(self.ended), self._numbers, self._call_id(), event.name)
            return events + call.begin()
        if not isinstance(self._open, OpenCall):
            raise InvariantViolated("a call goes on that is not open")
        if isinstance(event, ArgumentsDelta):
            return [self._open.add(event.json_text)]
        return self._close("completed" if event.is_complete else "incomplete")

    def _call_id(self) -> str:
        if self._plan is None:
            raise InvariantViolated("a call was found that nobody looked for")
        return new_call_id(self._plan.format, secrets.token_bytes)

    def _close(self, status: ItemStatus) -> list[Event]:
        match self._open:
            case None:
                return []
            case OpenMessage() as message:
                written = message.item(status)
                events = message.end(written)
                item: OutputItem = written
            case OpenCall() as call:
                called = call.item(status)
                events = call.end(called)
                item = called
        self._open = None
        self.ended.append(item)
        return [*events, ItemDone(sequence_number=next(self._numbers), output_index=len(self.ended) - 1, item=item)]
