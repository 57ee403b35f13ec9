"""The model's chat template, rendered in a sandbox. Comes from the model folder only; a client can never supply one."""

from __future__ import annotations

import datetime
import json
import time
from collections.abc import Callable
from typing import Any

import jinja2
import jinja2.ext
import jinja2.nodes
import jinja2.parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

from baton.core.errors import Incompatible
from baton.services.router.api.ask import ChatPrompt
from baton.services.router.errors import invalid

#: what templates test for: a prompt to be answered, without documents
SETTING = {"add_generation_prompt": True, "documents": None}


class Refusal(jinja2.TemplateError):
    """`raise_exception` of a template: it does not take these messages."""


class GenerationTag(jinja2.ext.Extension):
    """`{% generation %}` marks training targets; here its body is rendered as it stands."""

    tags = {"generation"}  # noqa: RUF012  jinja2 declares it as an instance attribute

    def parse(self, parser: jinja2.parser.Parser) -> list[jinja2.nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


def raise_exception(message: str) -> None:
    raise Refusal(message)


def strftime_now(pattern: str) -> str:
    return datetime.datetime.now().strftime(pattern)


def to_json(value: Any, ensure_ascii: bool = False, indent: int | None = None) -> str:
    """JSON without HTML escapes, as chat templates expect."""
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent)


class ChatTemplate:
    """Bounded by time and output; both are checked whenever the template writes something."""

    def __init__(
        self, source: str, variables: dict[str, str], budget_s: float = 2.0, clock: Callable[[], float] = time.monotonic
    ) -> None:
        environment = ImmutableSandboxedEnvironment(
            trim_blocks=True, lstrip_blocks=True, extensions=[GenerationTag, jinja2.ext.loopcontrols]
        )
        environment.filters["tojson"] = to_json
        environment.globals.update(raise_exception=raise_exception, strftime_now=strftime_now)
        try:
            self._template = environment.from_string(source)
        except jinja2.TemplateError as error:
            raise Incompatible(f"the chat template cannot be read: {error}") from error
        self._variables = variables
        self.source = source
        self._budget_s = budget_s
        self._clock = clock

    def render(self, chat: ChatPrompt, max_chars: int, param: str = "messages") -> str:
        """The prompt up to where the assistant speaks. A 400 says why the template refuses the messages, which came in
        the field `param`."""
        deadline = self._clock() + self._budget_s
        pieces = []
        num_chars = 0
        try:
            for piece in self._template.generate(**self._variables, **chat._asdict(), **SETTING):
                pieces.append(piece)
                num_chars += len(piece)
                if num_chars > max_chars or self._clock() > deadline:
                    raise Refusal("it takes too long or writes too much")
        except (jinja2.TemplateError, ArithmeticError, LookupError, TypeError, ValueError, RecursionError) as error:
            raise invalid(f"the chat template refuses the messages: {error}", param, "chat_template") from error
        return "".join(pieces)
