"""`baton model fetch [SOURCE]`: make a model folder and print where it is."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from baton.core.errors import ServingError
from baton.services.model.fetch import DEFAULT_MODEL, fetch


def main(arguments: list[str] | None = None) -> int:
    """Exit status: 0 with the folder on stdout, 1 with the reason on stderr."""
    parser = argparse.ArgumentParser(prog="baton model", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    fetching = commands.add_parser("fetch", help="download or convert a model once, and print its folder")
    fetching.add_argument("source", nargs="?", default=DEFAULT_MODEL, help="tiny, a folder, a .gguf file or a hub id")
    fetching.add_argument("--cache-dir", type=Path, default=None, help="default: $BATON_CACHE or ~/.cache/baton")
    options = parser.parse_args(arguments)
    try:
        print(fetch(options.source, options.cache_dir))
    except ServingError as error:
        print(f"baton model: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
