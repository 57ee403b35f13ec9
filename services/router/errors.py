"""What a client is told when something is wrong: one exception, one JSON shape, one table from reasons to statuses.

Reason codes and their numbers are public. Addresses, names of processes and internal ids never appear here.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from baton.core.errors import Reason, ServingError

MAX_MESSAGE_CHARS = 500  #: messages quote what the client sent, which may be megabytes


def shortened(text: str) -> str:
    return text if len(text) <= MAX_MESSAGE_CHARS else text[:MAX_MESSAGE_CHARS] + "…"


class ErrorDetail(msgspec.Struct, frozen=True):
    message: str
    type: str  #: the kind of error
    param: str | None  #: the field at fault
    code: str | None  #: the reason, for programs


class ErrorAnswer(msgspec.Struct, frozen=True):
    """OpenAI's error object: the body of every answer that is an error, and the last event of a stream that failed."""

    error: ErrorDetail


class ApiError(ServingError):
    """A request gets this answer and no other."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        kind: str = "invalid_request_error",
        param: str | None = None,
        code: str | None = None,
        retry_after_s: int | None = None,
    ) -> None:
        self.status = status
        self.message = shortened(message)
        self.kind = kind
        self.param = None if param is None else shortened(param)
        self.code = code
        self.retry_after_s = retry_after_s
        super().__init__(message)

    def body(self) -> bytes:
        """OpenAI's error object as JSON."""
        return msgspec.json.encode(ErrorAnswer(ErrorDetail(self.message, self.kind, self.param, self.code)))


def shutting_down(retry_after_s: int) -> ApiError:
    """The end of whatever this process does not finish before it stops."""
    message = "the server is shutting down"
    return ApiError(503, message, kind=SERVER, code="shutting_down", retry_after_s=retry_after_s)


def invalid(message: str, param: str | None = None, code: str | None = None) -> ApiError:
    """A 400 that names the field."""
    return ApiError(400, message, param=param, code=code)


def bad_grammar(message: str, param: str) -> ApiError:
    """A grammar that is none, or one that takes too much to compile."""
    return ApiError(422, f"{param}: {message}", param=param, code="invalid_grammar")


class Answer(NamedTuple):
    """How a Reason looks from outside."""

    status: int
    kind: str
    message: str
    may_retry: bool = False  #: answered with Retry-After


BUSY = "overloaded_error"
SERVER = "server_error"
ANSWERS = {
    Reason.QUEUE_FULL: Answer(429, "rate_limit_error", "too many requests are waiting", True),
    Reason.NO_EXECUTOR: Answer(503, BUSY, "no executor can serve this now", True),
    Reason.DRAINING: Answer(503, BUSY, "the server takes nothing new", True),
    Reason.KV_EXHAUSTED: Answer(503, BUSY, "too little KV memory is free", True),
    Reason.NO_SLOT: Answer(503, BUSY, "no sequence slot is free", True),
    Reason.QUARANTINE: Answer(503, BUSY, "too much KV memory waits for proof", True),
    Reason.LINK_BUSY: Answer(503, BUSY, "a connection is being repaired", True),
    Reason.PEER_LOST: Answer(503, SERVER, "an executor was lost", True),
    Reason.TOO_MANY_ATTEMPTS: Answer(503, SERVER, "it failed as often as a request may", True),
    Reason.NEVER_FITS: Answer(400, "invalid_request_error", "the request is larger than any executor"),
    Reason.DEADLINE: Answer(504, "timeout_error", "the request's time is over"),
    Reason.ABORTED: Answer(503, SERVER, "the request was aborted"),
    Reason.STALLED: Answer(408, "timeout_error", "the stream was not read"),
    Reason.GRAMMAR_FAILED: Answer(
        422, "invalid_request_error", "the grammar could not be followed to the answer's end within its limits"
    ),
}
OTHERWISE = Answer(500, SERVER, "the request failed")


def from_reason(reason: Reason, numbers: dict[str, float], retry_after_s: int) -> ApiError:
    """The answer for a refusal or an end with this reason; `numbers` decided it and are shown."""
    answer = ANSWERS.get(reason, OTHERWISE)
    detail = ", ".join(f"{name}={value:g}" for name, value in sorted(numbers.items()))
    return ApiError(
        answer.status,
        f"{answer.message} ({detail})" if detail else answer.message,
        kind=answer.kind,
        code=reason.name.lower(),
        retry_after_s=retry_after_s if answer.may_retry else None,
    )
