"""What can be wrong with a grammar, and with the process that checks grammars."""

from __future__ import annotations

from baton.core.errors import ServingError


class BadGrammar(ServingError):
    """A grammar that is malformed, too large or not supported; the message is fit for the client who sent it."""


class CheckerLost(ServingError):
    """The process that checks grammars ended or is silent: nothing is known about the grammar."""
