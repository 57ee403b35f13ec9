"""`baton keys DIR [NAME …]`: make the key folder of a deployment, or add names to it."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from baton.services.transport.keys import DEFAULT_NAMES, KeysUnusable, make_keys


def main(arguments: list[str] | None = None) -> int:
    """Exit code 0 when every name has a key; 2 for a name that no service may have."""
    parser = argparse.ArgumentParser(prog="baton keys", description=__doc__)
    parser.add_argument("folder", type=Path, help="made if absent; keys that are there are kept")
    of_services = f"of services; {' '.join(DEFAULT_NAMES)} if none is given"
    parser.add_argument("names", nargs="*", default=DEFAULT_NAMES, metavar="NAME", help=of_services)
    options = parser.parse_args(arguments)
    try:
        made = make_keys(options.folder, options.names)
    except (KeysUnusable, OSError) as error:
        print(f"baton keys: {error}", file=sys.stderr)
        return 2
    kept = [name for name in options.names if name not in made]
    told = [f"new keys for {', '.join(made)}"] if made else []
    told += [f"kept those of {', '.join(kept)}"] if kept else []
    print(f"{options.folder}: {'; '.join(told)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
