"""Events of a streamed /v1/responses, typed. Their numbers count from 0 without gaps."""

from __future__ import annotations

from baton.services.router.api.answers import Answer, ChosenTokenScore
from baton.services.router.api.responses_answers import OutputItem, OutputText, Response


class Event(Answer, frozen=True, kw_only=True, tag_field="type"):
    sequence_number: int


class ResponseEvent(Event, frozen=True, kw_only=True):
    """Tells how the whole of it stands."""

    response: Response


class Created(ResponseEvent, frozen=True, kw_only=True, tag="response.created"):
    """First of all."""


class InProgress(ResponseEvent, frozen=True, kw_only=True, tag="response.in_progress"):
    """Second of all."""


class Completed(ResponseEvent, frozen=True, kw_only=True, tag="response.completed"):
    """The end, where the model ended it."""


class Incomplete(ResponseEvent, frozen=True, kw_only=True, tag="response.incomplete"):
    """The end, where there was no more room."""


class Failed(ResponseEvent, frozen=True, kw_only=True, tag="response.failed"):
    """The end, where something went wrong."""


class ItemEvent(Event, frozen=True, kw_only=True):
    output_index: int
    item: OutputItem


class ItemAdded(ItemEvent, frozen=True, kw_only=True, tag="response.output_item.added"):
    """An item begins."""


class ItemDone(ItemEvent, frozen=True, kw_only=True, tag="response.output_item.done"):
    """An item as it stays."""


class WithinItem(Event, frozen=True, kw_only=True):
    item_id: str
    output_index: int


class PartEvent(WithinItem, frozen=True, kw_only=True):
    content_index: int = 0
    part: OutputText


class PartAdded(PartEvent, frozen=True, kw_only=True, tag="response.content_part.added"):
    """A message's text begins."""


class PartDone(PartEvent, frozen=True, kw_only=True, tag="response.content_part.done"):
    """A message's text as it stays."""


class TextAdded(WithinItem, frozen=True, kw_only=True, tag="response.output_text.delta"):
    content_index: int = 0
    delta: str
    logprobs: list[ChosenTokenScore]


class TextDone(WithinItem, frozen=True, kw_only=True, tag="response.output_text.done"):
    content_index: int = 0
    text: str
    logprobs: list[ChosenTokenScore]


class ArgumentsAdded(WithinItem, frozen=True, kw_only=True, tag="response.function_call_arguments.delta"):
    delta: str


class ArgumentsDone(WithinItem, frozen=True, kw_only=True, tag="response.function_call_arguments.done"):
    name: str
    arguments: str


AnyEvent = (
    Created
    | InProgress
    | ItemAdded
    | PartAdded
    | TextAdded
    | TextDone
    | PartDone
    | ArgumentsAdded
    | ArgumentsDone
    | ItemDone
    | Completed
    | Incomplete
    | Failed
)
