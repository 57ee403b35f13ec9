"""What `--help` says of a setting: the `#:` comment beside its field, its unit and its default.

The comments are the only place where a setting is explained, so they are read from the source when help is asked for.
"""

from __future__ import annotations

import ast
import inspect
import io
import sys
import tokenize
from collections.abc import Iterator
from functools import cache
from typing import Any

import msgspec

MARK = "#:"
#: placeholders by the unit in a name
UNITS = {"s": "SECONDS", "bytes": "BYTES", "tokens": "TOKENS", "blocks": "BLOCKS"}
KINDS = {int: "N", float: "X", str: "TEXT", tuple[str, ...]: "A,B,…"}
BINARY_UNITS = ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))


def comments_of(kind: type) -> dict[str, str]:
    """By field, inherited ones included; fields without a comment are absent. Empty where there is no source."""
    found: dict[str, str] = {}
    for base in reversed(kind.__mro__):
        if base is not msgspec.Struct and issubclass(base, msgspec.Struct):
            found |= _comments_in(base.__module__).get(base.__qualname__, {})
    return found


def placeholder(field: msgspec.structs.FieldInfo) -> str:
    for part in reversed(field.name.split("_")):
        if part in UNITS and field.type in (int, float):
            return UNITS[part]
    return KINDS.get(field.type, "VALUE")


def help_text(field: msgspec.structs.FieldInfo, comments: dict[str, str]) -> str:
    """For argparse."""
    default = default_text(field)
    parts = [comments.get(field.name, ""), f"(default: {default})" if default else ""]
    return " ".join(filter(None, parts)).replace("%", "%%")


def default_text(field: msgspec.structs.FieldInfo) -> str:
    """Empty where there is none, or where nothing is the default."""
    value: Any = field.default
    if value is msgspec.NODEFAULT or value in ("", (), None):
        return ""
    if isinstance(value, tuple):
        return ",".join(value)
    if "bytes" in field.name.split("_"):
        for size, unit in BINARY_UNITS:
            if value and value % size == 0:
                return f"{value}, {value // size} {unit}"
    return f"{value:g}" if isinstance(value, float) else str(value)


@cache
def _comments_in(module: str) -> dict[str, dict[str, str]]:
    """By class: those beside a field, or in the lines above it."""
    try:
        source = inspect.getsource(sys.modules[module])
    except (OSError, TypeError):  # there is no file, or the module is built in
        return {}
    by_line = {
        token.start[0]: token.string.removeprefix(MARK).strip()
        for token in tokenize.generate_tokens(io.StringIO(source).readline)
        if token.type == tokenize.COMMENT and token.string.startswith(MARK)
    }
    return {name: _comments_of_fields(node, by_line) for name, node in _classes(ast.parse(source), "")}


def _classes(outer: ast.Module | ast.ClassDef, prefix: str) -> Iterator[tuple[str, ast.ClassDef]]:
    """With those inside of classes."""
    for node in outer.body:
        if isinstance(node, ast.ClassDef):
            yield prefix + node.name, node
            yield from _classes(node, f"{prefix}{node.name}.")


def _comments_of_fields(definition: ast.ClassDef, by_line: dict[int, str]) -> dict[str, str]:
    """Takes out of `by_line` what it finds."""
    found: dict[str, str] = {}
    for node in definition.body:
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            beside = [by_line.pop(line) for line in range(node.lineno, (node.end_lineno or 0) + 1) if line in by_line]
            above: list[str] = []
            while node.lineno - 1 - len(above) in by_line:
                above.insert(0, by_line.pop(node.lineno - 1 - len(above)))
            if text := " ".join([*above, *beside]):
                found[node.target.id] = text
    return found
