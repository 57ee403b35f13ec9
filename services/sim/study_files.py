"""Files of a study, as bytes."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec


def json_file(data: Any) -> bytes:
    return msgspec.json.format(msgspec.json.encode(data), indent=1) + b"\n"


def csv_file(heads: Sequence[str], rows: Iterable[Sequence[Any]]) -> bytes:
    text = io.StringIO()
    table = csv.writer(text)
    table.writerow(heads)
    table.writerows(rows)
    return text.getvalue().encode()
