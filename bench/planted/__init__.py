"""What a benchmark changes in executors that it compares with: other orders, planted into the source as they start.

A program that finds this folder on PYTHONPATH imports its `sitecustomize`, which plants what $BATON_PLANTED names.
"""

from __future__ import annotations

from pathlib import Path

FOLDER = Path(__file__).parent


def environment(name: str) -> dict[str, str]:
    """What starts a program with that plant; nothing for no name. Raises KeyError for a name that there is not."""
    if not name:
        return {}
    from bench.planted.plants import PLANTS

    PLANTS[name]
    return {"PYTHONPATH": str(FOLDER), "BATON_PLANTED": name}
