"""Files of a study: checked before it, written after it."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from baton.services.loadgen.load_errors import BadLoad
from baton.services.loadgen.results import write_whole


def check_folder(folder: Path, names: Sequence[str]) -> None:
    """Raises BadLoad where files of a study would be lost."""
    for name in names:
        path = folder / name
        if path.exists() and path.stat().st_size:
            raise BadLoad(f"out: {folder} already holds a study ({name})")


def write_json(path: Path, data: Any) -> None:
    """Raises OSError."""
    write_whole(path, msgspec.json.format(msgspec.json.encode(data), indent=1) + b"\n")


def write_csv(path: Path, heads: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Raises OSError."""
    text = io.StringIO()
    table = csv.writer(text)
    table.writerow(heads)
    table.writerows(rows)
    write_whole(path, text.getvalue().encode())
