"""The refusal of a request for what it says about tools."""

from __future__ import annotations

from baton.core.errors import ServingError


class ToolsRefused(ServingError):
    """A 400: `param` is the field to blame, as `tools[3].function.name`; `code` is stable."""

    def __init__(self, message: str, param: str, code: str) -> None:
        self.message = message
        self.param = param
        self.code = code
        super().__init__(message)
