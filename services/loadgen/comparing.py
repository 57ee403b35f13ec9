"""`baton bench compare A B`: two runs over the requests that succeeded in both. Of a sweep, each point is a run."""

from __future__ import annotations

import argparse
from pathlib import Path

from baton.core.metrics.compare import RunFiles, compare
from baton.core.metrics.report import BadReport, decode_facts, decode_report
from baton.services.loadgen.console import Output, show_comparison
from baton.services.loadgen.load_errors import BadLoad
from baton.services.loadgen.results import RECORDS, REPORT


def main(arguments: list[str]) -> int:
    """Raises ServingError. Exit code 1 where records are lost, or the two are not alike and that was not asked for."""
    parser = argparse.ArgumentParser(prog="baton bench compare", description=__doc__)
    parser.add_argument("first", type=Path, help="folder of a run")
    parser.add_argument("second", type=Path, help="folder of another one of the same load")
    parser.add_argument("--unlike", action="store_true", help="exit with 0 although the two are not alike")
    asked = parser.parse_args(arguments)
    found = compare(read_run(asked.first), read_run(asked.second))
    show_comparison(found, (str(asked.first), str(asked.second)), Output())
    return 1 if found.losses or (found.cautions and not asked.unlike) else 0


def read_run(folder: Path) -> RunFiles:
    """Raises BadLoad, which names the file, or the runs of a sweep."""
    path = folder / REPORT
    if not path.exists() and (points := sorted(str(each.parent) for each in folder.glob(f"*/{REPORT}"))):
        raise BadLoad(f"the folder {folder} holds a sweep; its runs can be compared: {', '.join(points)}")
    try:
        report = decode_report(path.read_bytes())
        path = folder / RECORDS
        with path.open("rb") as lines:
            return RunFiles(report, list(decode_facts(lines)))
    except OSError as error:
        raise BadLoad(f"{path}: {error.strerror}") from error
    except BadReport as error:
        raise BadLoad(f"{path}: {error}") from error
