"""How `baton sim`, `compare` and `tune` end: figures on the terminal, files in the folder."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from rich.console import Console

from baton.services.loadgen.refusals import is_written


def tell_and_keep(
    name: str,
    tell: Callable[[], None],
    folder: Path | None,
    keep: Callable[[Path], Sequence[Path]],
    console: Console,
    errors: Console,
) -> bool:
    """Whether both could be written, each without the other; what could not is named on `errors`. `keep` writes all
    files or none, and gives those that are worth a line."""

    def say(text: str) -> None:
        errors.print(f"baton {name}: {text}", markup=False, highlight=False, soft_wrap=True)

    def tell_kept() -> None:
        for path in kept:
            console.print(f"written: {path}", markup=False, highlight=False, soft_wrap=True)

    is_told = is_written(tell, say)
    if folder is None:
        return is_told
    kept: list[Path] = []
    is_kept = is_written(lambda: kept.extend(keep(folder)), lambda text: say(f"{text}: no file was kept"))
    return is_told and is_kept and is_written(tell_kept, say)
