"""Real processes with the fake device that live for a module of tests. Each test leaves them as it found them."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

from baton.services.model.fetch import fetch
from tests.support.completions import ask, check_answer, random_question
from tests.support.metrics import labelled_samples
from tests.support.stack import Stack

PAIR = ("scheduler", "prefill", "decode", "router")
HANG_LIMIT_S = 60.0  #: bounds a test that hangs; nothing is measured against it
LOG_TAIL_CHARS = 2000
PATIENT = ("--silence-s", "20")  #: a busy machine is no lost peer


@asynccontextmanager
async def running(
    folder: Path, names: tuple[str, ...] = PAIR, *, is_patient: bool = True, **extra: tuple[str, ...]
) -> AsyncIterator[Stack]:
    """A stack that is ready; `extra` are flags by role. Impatient links take a second's silence for a loss."""
    roles = {name.rstrip("0123456789") for name in names}
    flags = {role: (*(PATIENT if is_patient else ()), *extra.get(role, ())) for role in roles}
    stack = Stack(folder / "run", fetch("tiny", folder / "models"), names=names, extra=flags)
    try:
        for name in names:
            stack.start(name)
        try:
            async with asyncio.timeout(HANG_LIMIT_S):
                await stack.ready()
        except BaseException:
            tell(stack)
            raise
        yield stack
    finally:
        await stack.close()


def tell(stack: Stack) -> None:
    """Print the end of every log, for whoever reads a failure."""
    for name in stack.running:
        print(f"==== {name}\n{stack.log(name)[-LOG_TAIL_CHARS:]}")


@asynccontextmanager
async def left_as_found(stack: Stack, *, is_exact: bool = True) -> AsyncIterator[Stack]:
    """On the way out: LIVENESS (the same processes answer, exactly unless told) and CONSERVATION (nothing is held)."""
    pids = {name: process.pid for name, process in stack.running.items()}
    try:
        yield stack
    finally:
        tell(stack)
    await check_alive(stack, is_exact=is_exact)
    await check_nothing_held(stack)
    assert {name: process.pid for name, process in stack.running.items()} == pids


async def check_alive(stack: Stack, *, is_exact: bool = True) -> None:
    """A canary request is answered, and every process is there. Not exact: the device ends answers by itself."""
    question = random_question(random.Random(1), 40, 5)
    answer = await ask(stack.session, stack.url, question)
    assert answer.is_complete, answer
    if is_exact:
        check_answer(question, answer)
    assert [name for name, process in stack.running.items() if process.poll() is not None] == []


async def check_nothing_held(stack: Stack) -> None:
    await stack.quiescent()
    for name in stack.running:
        gauges = await stack.gauges(name)
        if "blocks" in gauges:
            assert gauges["blocks_free"] == gauges["blocks"], name
            assert gauges["transfers_quarantined"] == 0, name


async def samples(stack: Stack, name: str) -> dict[tuple[str, ...], float]:
    """Every sample of its `/metrics`, by name and labels."""
    return labelled_samples(await stack.metrics(name))


class Listener(NamedTuple):
    """A TCP socket that a process listens on."""

    process: str
    address: str  #: as the kernel writes it: hexadecimal, network order by word
    port: int


def listeners(stack: Stack) -> set[Listener]:
    """Of all processes: control links, HTTP, and whatever the transport listens on."""
    return {
        Listener(name, address, port)
        for name, process in stack.running.items()
        for address, port in _listening(process.pid)
    }


def _listening(pid: int) -> set[tuple[str, int]]:
    inodes = set()
    for link in Path(f"/proc/{pid}/fd").iterdir():
        try:
            inodes.add(link.readlink().name)
        except FileNotFoundError:
            continue
    found = set()
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and f"socket:[{fields[9]}]" in inodes:
                address, _, port = fields[1].partition(":")
                found.add((address, int(port, 16)))
    return found


def resident_bytes(stack: Stack, name: str) -> int:
    """Memory of the process that is in RAM."""
    for line in Path(f"/proc/{stack.running[name].pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) << 10
    raise AssertionError(f"{name} has no memory")
