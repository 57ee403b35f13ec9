"""Processes of this machine: what CPU they used, which children they have, and a network of their own."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

MARK = "BATON_BENCH_NETWORK"
CLOCK_OF_PROCESS = 2  #: CPUCLOCK_SCHED: all threads, user and system, in nanoseconds


def process_cpu_s(pid: int) -> float:
    """CPU time of a process so far, of its ended threads too. Raises OSError if it is not there."""
    return time.clock_gettime((~pid << 3) | CLOCK_OF_PROCESS)


def children(pid: int) -> list[int]:
    """Those that any thread of it started."""
    return [
        int(child) for task in Path(f"/proc/{pid}/task").iterdir() for child in (task / "children").read_text().split()
    ]


def family(pid: int) -> list[int]:
    """The process, its children, theirs and so on."""
    return [pid, *(member for child in children(pid) for member in family(child))]


def hold_to_cores(pid: int, cores: set[int]) -> None:
    """All threads that it and its family have now. Those that they start later inherit it."""
    for member in family(pid):
        for task in Path(f"/proc/{member}/task").iterdir():
            os.sched_setaffinity(int(task.name), cores)


def command_line(pid: int) -> str:
    return Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")


def enter_own_network() -> None:
    """Start this program again in a network namespace that has loopback and nothing else."""
    if os.environ.get(MARK):
        return
    os.environ[MARK] = "1"
    inside = ["sh", "-c", 'ip link set lo up && exec "$@"', "sh", sys.executable, *sys.argv]
    os.execvp("unshare", ["unshare", "--net", *inside])
