"""The command line of `baton fuzz`, and what on it makes no sense."""

from __future__ import annotations

import argparse
import difflib
import tomllib
from pathlib import Path

from baton.core.sim.mutation import Mutation

CATALOG = Path(__file__).resolve().parents[2] / "tests" / "mutations" / "mutants.toml"  #: of a checkout


class CatalogUnusable(Exception):
    """The file with the planted defects is not there, is none, or lacks the one that was asked for."""


def load_mutant(path: Path, name: str) -> Mutation:
    """One planted defect of a catalog. Raises CatalogUnusable."""
    try:
        with path.open("rb") as stream:
            mutants = {entry["name"]: Mutation(**entry) for entry in tomllib.load(stream)["mutant"]}
    except FileNotFoundError as error:
        raise CatalogUnusable(
            f"there is no {path}: a checkout of Baton has the planted defects, --catalog names the file"
        ) from error
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise CatalogUnusable(f"{path} is no catalog of planted defects: {error}") from error
    if name not in mutants:
        near = difflib.get_close_matches(name, mutants)
        raise CatalogUnusable(f"{path} has no defect of this name" + (f"; near it: {', '.join(near)}" if near else ""))
    return mutants[name]


def seed_range(text: str) -> range:
    """`A..B`, both included, or `A`."""
    first, dots, last = text.partition("..")
    try:
        seeds = range(int(first), int(last if dots else first) + 1)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no range A..B") from None
    if not seeds:
        raise argparse.ArgumentTypeError(f"{text!r} holds no seed: the first is larger than the last")
    return seeds


def positive(text: str) -> int:
    number = int(text) if text.lstrip("-").isdecimal() else 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number of at least 1")
    return number


def duration_s(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is no positive number of seconds")
    return seconds


def parse(argv: list[str]) -> argparse.Namespace:
    """What makes no sense ends the process with exit code 2 and a line that names the flag."""
    parser = argparse.ArgumentParser(prog="baton fuzz", description="Search the simulator for a broken law.")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--seeds", type=seed_range, help="a range A..B, both included (0..199)")
    which.add_argument("--seed", type=int, help="one seed, with its story if it breaks a law")
    parser.add_argument("--no-shrink", action="store_true", help="tell the story of the whole scenario")
    parser.add_argument("--lines", type=positive, default=80, help="last lines of a story (80)")
    parser.add_argument("--grep", default="", help="only the lines of a story that hold this text")
    parser.add_argument("--first", type=int, default=0, help="first seed of a search without --seeds (0)")
    parser.add_argument("--events", type=positive, help="search until that many events were handled")
    parser.add_argument("--seconds", type=duration_s, help="search for so long")
    parser.add_argument("--patience", type=positive, default=5, help="violations after which the search ends (5)")
    parser.add_argument("--mutant", default="", help="plant this defect of the catalog first")
    parser.add_argument("--catalog", type=Path, default=CATALOG, help="file with the planted defects (the checkout's)")
    parser.add_argument("--jobs", type=positive, default=1, help="processes (1)")
    parser.add_argument(
        "--check-every", type=positive, default=97, help="events between two checks of all invariants (97)"
    )
    parser.add_argument("--coverage", action="store_true", help="print what happened how often")
    options = parser.parse_args(argv)
    if options.seeds is None and options.seed is None and not (options.events or options.seconds):
        options.seeds = range(0, 200)
    try:
        options.planted = load_mutant(options.catalog, options.mutant) if options.mutant else None
    except CatalogUnusable as error:
        parser.error(f"--mutant {options.mutant}: {error}")
    return options
