"""Files of a study."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from baton.services.loadgen.out_folder import write_whole


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
