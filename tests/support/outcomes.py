"""Comparing two implementations call by call: the same result, or the same kind of refusal."""

from typing import Any


def outcome(target: object, method: str, *arguments: Any) -> tuple[str, Any]:
    """Call the method; return what it returned, or the type of what it raised."""
    try:
        return "returned", getattr(target, method)(*arguments)
    except Exception as error:
        return "raised", type(error)


def same_outcome(real: object, twin: object, method: str, *arguments: Any) -> Any:
    """Call both and insist on one outcome; return it (None when both raised)."""
    kind, value = outcome(real, method, *arguments)
    assert (kind, value) == outcome(twin, method, *arguments), (method, arguments)
    return value if kind == "returned" else None
