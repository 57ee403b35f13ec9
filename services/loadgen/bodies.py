"""From a planned request to the JSON that is sent: what the load says, as this endpoint asks for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from baton.services.loadgen.content import Content, ContentSettings, Prompt
from baton.services.loadgen.load_errors import BadLoad
from baton.services.loadgen.plan import PlannedRequest
from baton.services.loadgen.target import Endpoint, Turn


class BodySettings(msgspec.Struct, frozen=True, kw_only=True):
    """What all requests of a run have in common in their bodies."""

    model: str
    endpoint: Endpoint
    content: ContentSettings
    is_streamed: bool = True
    ignore_eos: bool = True  #: ask for exactly `max_tokens`; the responses API has no field for it
    asks_counts: bool = False  #: of tokens, with every event
    extra_fields: Mapping[str, Any] = {}  #: over all others


class Bodies:
    """A `BodyOf`. Raises BadLoad for what cannot be said on the endpoint, and if the tokenizer cannot be read."""

    def __init__(self, settings: BodySettings) -> None:
        self._settings = settings
        self._content = Content(settings.content)

    def __call__(self, request: PlannedRequest, history: Sequence[Turn]) -> bytes:
        fields = {
            "model": self._settings.model,
            **self._question(self._content.prompt(request), history),
            **self._length(request.max_tokens),
            **self._stream(),
            **self._settings.extra_fields,
        }
        return msgspec.json.encode(fields)

    def _question(self, prompt: Prompt, history: Sequence[Turn]) -> dict[str, Any]:
        if self._settings.endpoint is Endpoint.COMPLETIONS:
            return {"prompt": self._whole_prompt(prompt, history)}
        name = "messages" if self._settings.endpoint is Endpoint.CHAT else "input"
        return {name: [*self._said(history), *_messages(prompt)]}

    def _whole_prompt(self, prompt: Prompt, history: Sequence[Turn]) -> str | tuple[int, ...]:
        if prompt.messages_json:
            raise BadLoad("messages can be asked for on chat and responses, not on completions")
        if prompt.token_ids:
            return prompt.token_ids
        parts = [part for turn in history for part in (self._content.prompt(turn.request).text, turn.answer)]
        return "\n".join([*parts, prompt.text])

    def _said(self, history: Sequence[Turn]) -> list[Any]:
        said: list[Any] = []
        for turn in history:
            said += _messages(self._content.prompt(turn.request))
            said.append({"role": "assistant", "content": turn.answer})
        return said

    def _length(self, max_tokens: int) -> dict[str, Any]:
        if self._settings.endpoint is Endpoint.RESPONSES:
            return {"max_output_tokens": max_tokens}
        exact = {"ignore_eos": True, "min_tokens": max_tokens} if self._settings.ignore_eos else {}
        return {"max_tokens": max_tokens, **exact}

    def _stream(self) -> dict[str, Any]:
        if not self._settings.is_streamed:
            return {}
        if self._settings.endpoint is Endpoint.RESPONSES:
            return {"stream": True}
        counts = {"continuous_usage_stats": True} if self._settings.asks_counts else {}
        return {"stream": True, "stream_options": {"include_usage": True, **counts}}


def make_bodies(**settings: Any) -> Bodies:
    """For a worker: `settings` are those of `BodySettings`, as plain values."""
    return Bodies(msgspec.convert(settings, BodySettings))


def _messages(prompt: Prompt) -> list[Any]:
    if prompt.token_ids:
        raise BadLoad("token ids can be asked for on completions, not in messages")
    if prompt.messages_json:
        return msgspec.json.decode(prompt.messages_json, type=list[msgspec.Raw])
    return [{"role": "user", "content": prompt.text}]
