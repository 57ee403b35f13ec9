"""Bodies that a worker process makes in tests."""

from __future__ import annotations

import json
from collections.abc import Sequence

from baton.services.loadgen.load_errors import BadLoad
from baton.services.loadgen.plan import PlannedRequest
from baton.services.loadgen.target import BodyOf, Turn


def plain(broken_from: int | None = None) -> BodyOf:
    """A chat of the session's turns and the plan's text; `user` says the index. From `broken_from` on there is none."""

    def body_of(request: PlannedRequest, history: Sequence[Turn]) -> bytes:
        if broken_from is not None and request.index >= broken_from:
            raise BadLoad(f"request {request.index} cannot be said")
        messages = []
        for turn in history:
            messages += [{"role": "user", "content": turn.request.text}, {"role": "assistant", "content": turn.answer}]
        messages.append({"role": "user", "content": request.text})
        return json.dumps({"messages": messages, "user": str(request.index)}).encode()

    return body_of
