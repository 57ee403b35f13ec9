"""What can be wrong with a load that was asked for. Each message is one line, fit for whoever typed the command."""

from __future__ import annotations

from baton.core.errors import ServingError


class BadLoad(ServingError):
    """An option, or options together, that make no load."""


class BadTrace(BadLoad):
    """A file of a load that cannot be read; the message names file, line and field."""
