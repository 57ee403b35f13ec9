"""The endpoint /v1/responses."""

from __future__ import annotations

from baton.services.router.api.handlers import Endpoint
from baton.services.router.api.responses_ask import responses_ask
from baton.services.router.api.responses_bodies import ResponsesBody
from baton.services.router.api.responses_shape import ResponsesShape

RESPONSES = Endpoint(
    "resp_",
    ResponsesBody,
    lambda body, model, config: responses_ask(body, model.info.vocab_size, config, model.tool_format),
    ResponsesShape,
)
