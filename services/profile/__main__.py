"""`baton profile`: reads the steps of a running executor, after a load that it may drive itself, and fits a profile.

Exit codes: 0; 1 the profile could not be written; 2 nothing could be read, driven or fitted; 130 interrupted.
"""

from __future__ import annotations

import argparse
import errno
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from baton.core.sim.step_time.features import StepKind
from baton.core.sim.step_time.fit import Fit, fit
from baton.core.sim.step_time.observed import ObservedStep, ObservedSteps
from baton.core.sim.step_time.profile import Profile, encode_profile
from baton.services.loadgen.interrupts import EXIT_INTERRUPTED
from baton.services.loadgen.out_folder import write_whole
from baton.services.loadgen.refusals import is_written, or_refused
from baton.services.loadgen.results import describe_machine
from baton.services.profile.drive import LOADS, drive, read_steps

EXIT_FAILED = 1
DESCRIPTION = """\
Fit a step-time profile on a running executor (its admin port is in its log and in NAME.json of its run folder).

  baton profile --executor http://127.0.0.1:9001 --out cpu.json                    of the steps that it remembers
  baton profile --executor http://127.0.0.1:9001 --url http://127.0.0.1:8000 --out cpu.json    of a load driven for it
  baton profile --executor URL_OF_P --beside URL_OF_D --url … --out p.json         what they cost each other, too
  baton sim --topology 2U --profile cpu.json --synthetic "rate=2 num_requests=200"
"""


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="baton profile", description=DESCRIPTION, formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )  # fmt: skip
    parser.add_argument("--executor", required=True, metavar="URL", help="admin address of the executor")
    parser.add_argument("--out", required=True, type=Path, metavar="FILE", help="the profile, as JSON")
    parser.add_argument("--url", default="", metavar="URL", help="HTTP API of its deployment: put loads on it first")
    parser.add_argument(
        "--beside", default="", metavar="URL", help="admin address of another executor on the same machine"
    )
    parser.add_argument("--name", default="", help="of the profile; the file's name if not given")
    parser.add_argument(
        "--max-time-s", type=float, default=60.0, metavar="S", help=f"of each of the {len(LOADS)} loads (60)"
    )
    asked = parser.parse_args(sys.argv[1:] if arguments is None else arguments)
    try:
        return or_refused("profile", lambda: make(asked))
    except KeyboardInterrupt:
        print("baton profile: interrupted; nothing was written", file=sys.stderr)
        return EXIT_INTERRUPTED


def make(asked: argparse.Namespace) -> int:
    """The exit code. Raises ServingError, OSError before anything is fitted."""
    check_place(asked.out)
    pages = observe([asked.executor, *filter(None, [asked.beside])], asked.url, asked.max_time_s)
    (page, steps), beside = pages[0], [step for _, others in pages[1:] for step in others]
    found = fit(steps, beside)
    profile = profile_of(asked.name or asked.out.stem, page, found)

    def say(text: str) -> None:
        print(f"baton profile: {text}", file=sys.stderr)

    def tell() -> None:
        show(found, len(steps))
        if is_kept:
            print(f"written: {asked.out}")

    is_kept = is_written(lambda: write_whole(asked.out, encode_profile(profile)), say)
    return 0 if is_written(tell, say) and is_kept else EXIT_FAILED


def check_place(path: Path) -> None:
    """Before minutes of loads. Raises OSError, which names what cannot be written."""
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if not path.parent.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, "there is no such folder", str(path.parent))
    if not os.access(path.parent, os.W_OK | os.X_OK):
        raise PermissionError(errno.EACCES, "nothing can be written to this folder", str(path.parent))


Observed = tuple[ObservedSteps, list[ObservedStep]]  #: the last page, and the steps of all


def observe(executors: Sequence[str], url: str, max_time_s: float, loads: Mapping[str, str] = LOADS) -> list[Observed]:
    """What each executor remembers, or computed while the loads ran. Raises ServingError, OSError."""
    pages = [read_steps(executor) for executor in executors]
    if not url:
        return [(page, list(page.steps)) for page in pages]
    last = [page.steps[-1].step_id if page.steps else 0 for page in pages]
    steps: list[list[ObservedStep]] = [[] for _ in executors]
    for name, load in loads.items():
        print(f"load: {name}", file=sys.stderr)
        drive(url, load, max_time_s)
        for place, executor in enumerate(executors):
            pages[place] = read_steps(executor, last[place])
            steps[place] += pages[place].steps
            last[place] = steps[place][-1].step_id if steps[place] else last[place]
    return list(zip(pages, steps, strict=True))


def profile_of(name: str, page: ObservedSteps, found: Fit) -> Profile:
    """The fit as a file."""
    machine = {key: str(value) for key, value in describe_machine().items()}
    num_steps = sum(error.num_steps for error in found.errors.values())
    return Profile(
        name=name,
        source=f"baton profile on {page.executor} ({page.device}), {num_steps} steps",
        kv=page.kv,
        kv_tokens=page.kv_tokens,
        steps=found.model,
        fit_errors=found.errors,
        machine=machine | {"device": page.device},
    )


def show(found: Fit, num_steps: int) -> None:
    print(f"{num_steps} steps; host time {found.model.host_s * 1e3:.3f} ms a step")
    for kind, error in found.errors.items():
        off = f"mean error {error.mape:.1%}, p95 of |error| {error.p95_abs_s * 1e3:.3f} ms"
        slower = found.model.neighbour_slowdown(StepKind(kind))
        beside = f"; beside the other executor {slower:.3f} times as long" if slower > 1 else ""
        print(f"{kind:<8}{error.num_steps:>6} steps, {off}{beside}")
    for kind in ("prefill", "decode", "mixed"):
        if kind not in found.errors:
            print(f"{kind:<8}too few steps: not in the profile")


if __name__ == "__main__":
    sys.exit(main())
