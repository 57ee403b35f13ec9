"""`baton bench` as its user starts it: a process, its exit code, what it printed and the files that it left."""

from __future__ import annotations

import asyncio
import os
import sys
from asyncio.subprocess import PIPE, Process
from pathlib import Path
from typing import IO, NamedTuple

from baton.core.metrics.facts import RequestFacts
from baton.core.metrics.report import Report, decode_facts, decode_report
from baton.services.loadgen.bench_settings import KEY_VARIABLES
from baton.services.loadgen.results import RECORDS, REPORT

HANG_LIMIT_S = 120.0  #: bounds a test that hangs; nothing is measured against it


class Ran(NamedTuple):
    """A command that is over."""

    code: int
    out: str
    err: str
    folder: Path  #: that it was told for its files

    def report(self, point: str = "") -> Report:
        return decode_report((self.folder / point / REPORT).read_bytes())

    def facts(self, point: str = "") -> list[RequestFacts]:
        """In the order of the plan."""
        lines = (self.folder / point / RECORDS).read_bytes().splitlines()
        return sorted(decode_facts(lines), key=lambda row: row.index)


async def start_bench(
    *flags: str, key: str = "", has_own_group: bool = False, stdout: int | IO[bytes] = PIPE
) -> Process:
    """No variable of the caller's environment says a key. `has_own_group`: as a shell starts it, so that a Ctrl-C there
    is one for all its processes."""
    environment = {name: value for name, value in os.environ.items() if name not in KEY_VARIABLES}
    environment |= {KEY_VARIABLES[0]: key} if key else {}
    command = (sys.executable, "-m", "baton.services.cli.main", "bench", *flags)
    return await asyncio.create_subprocess_exec(
        *command, stdout=stdout, stderr=PIPE, env=environment, start_new_session=has_own_group
    )


async def finished(process: Process, folder: Path) -> Ran:
    async with asyncio.timeout(HANG_LIMIT_S):
        out, err = await process.communicate()
    assert process.returncode is not None
    return Ran(process.returncode, (out or b"").decode(), err.decode(), folder)


async def bench(url: str, folder: Path, *flags: str, key: str = "") -> Ran:
    """One command line to its end."""
    return await finished(await start_bench("--url", url, "--out", str(folder), *flags, key=key), folder)
