"""What the statuses of errors mean, and the headers that come with them."""

from __future__ import annotations

from typing import Any, NamedTuple

from baton.core.wire.placement import PlacementReason


class Status(NamedTuple):
    """One status of an error."""

    meaning: str
    headers: tuple[str, ...] = ()


OF_ANY_ROUTE = (400, 417, 431, 500)  #: what is no HTTP; an unknown Expect; too large a head; a bug
OF_EVERY_BODY = (404, 408, 413, 415, 429)  #: what may come of reading one
WITH_KEYS = (401,)
ERRORS = {
    400: Status(
        "The request is not valid: `param` names the field at fault and `code` says what is wrong with it. Fields that "
        "exclude each other are answered so too (`conflict`), and what the model's context cannot hold "
        "(`context_length_exceeded`)."
    ),
    401: Status("A valid API key is needed: `Authorization: Bearer KEY`.", ("WWW-Authenticate",)),
    404: Status("The model is not served here."),
    408: Status("The body did not come in time, or the answer was not read."),
    413: Status("The body is larger than the limit, which the message names."),
    415: Status("The body is no uncompressed JSON in UTF-8 with the Content-Type application/json."),
    417: Status("Expect says something else than 100-continue."),
    422: Status("The grammar cannot be compiled, or takes more work than one request may cause."),
    429: Status("Too many requests wait, or this key began too many.", ("Retry-After",)),
    431: Status("The head of the request is too large or has too many fields."),
    500: Status("An error of the server's."),
    503: Status("Nothing can serve this now: `code` says why. The same request may work later.", ("Retry-After",)),
    504: Status("The time that the request had is over."),
}
HEADERS: dict[str, dict[str, Any]] = {
    "X-Request-Id": {
        "description": "The X-Request-Id of the request; without it the id of the answer or the error.",
        "schema": {"type": "string"},
    },
    "X-Baton-Placement": {
        "description": "Why the prompt was computed where it was. Not sent if that was unknown when the answer began.",
        "schema": {"type": "string", "enum": [reason.value for reason in PlacementReason]},
    },
    "Retry-After": {
        "description": "Seconds after which trying again makes sense. Not sent where it never does.",
        "schema": {"type": "integer", "minimum": 0},
    },
    "WWW-Authenticate": {
        "description": "The scheme.",
        "required": True,
        "schema": {"type": "string", "enum": ["Bearer"]},
    },
    "ETag": {
        "description": "Changes with the content; give it back in If-None-Match.",
        "required": True,
        "schema": {"type": "string"},
    },
}
