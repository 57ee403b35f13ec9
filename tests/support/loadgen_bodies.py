"""Bodies that a worker process makes in tests."""

from __future__ import annotations

import json
from collections.abc import Sequence

from baton.services.loadgen.plan import PlannedRequest
from baton.services.loadgen.target import BodyOf, Turn


def plain() -> BodyOf:
    """A chat of the session's turns and the plan's text; `user` says the index."""

    def body_of(request: PlannedRequest, history: Sequence[Turn]) -> bytes:
        messages = []
        for turn in history:
            messages += [{"role": "user", "content": turn.request.text}, {"role": "assistant", "content": turn.answer}]
        messages.append({"role": "user", "content": request.text})
        return json.dumps({"messages": messages, "user": str(request.index)}).encode()

    return body_of
