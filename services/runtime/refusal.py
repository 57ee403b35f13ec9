"""Why a process could not start, for whoever started it: `NAME.refused` in the run folder, one line of text."""

from __future__ import annotations

from pathlib import Path

SUFFIX = ".refused"


def write_refusal(folder: str, name: str, cause: str) -> None:
    """Does nothing without a run folder, or where it cannot be written: the log has said it."""
    if not folder:
        return
    try:
        (Path(folder) / f"{name}{SUFFIX}").write_text(cause, encoding="utf-8")
    except OSError:
        return


def read_refusal(folder: Path, name: str) -> str:
    """Empty where it gave none."""
    try:
        return (folder / f"{name}{SUFFIX}").read_text(encoding="utf-8")
    except FileNotFoundError:
        return ""
