"""How a service ends: each way in a process of its own, judged by its exit code and its last words."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from baton.services.runtime.lifecycle import EXIT_BUG, EXIT_REFUSED

PROLOGUE = """
import asyncio, os, signal, sys
from baton.core.errors import Incompatible
from baton.services.runtime.lifecycle import run_service
from baton.services.runtime.log import Log
async def wait(life):
    life.before_exit(lambda: print("flushed", flush=True))
    print("up", flush=True)
    await life.stop_requested()
async def linger(life):
    await wait(life)
    await asyncio.Event().wait()
async def refuse(life):
    raise Incompatible("the layouts differ")
async def lose_a_task(life):
    async def die():
        raise RuntimeError("gone")
    life.spawn(die())
    await linger(life)
"""


def start(main: str, parent_pid: str = "0") -> subprocess.Popen[str]:
    script = PROLOGUE + f"sys.exit(run_service(Log('x', 1), {main}, {parent_pid}))"
    return subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_a_service_in_order(number: int) -> None:
    with start("wait") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "up\n"
        process.send_signal(number)
        assert process.communicate()[0] == "flushed\n"
        assert process.returncode == 0


def test_zmq05_a_second_signal_ends_a_service_that_is_still_stopping() -> None:
    with start("linger") as process:
        assert process.stdout is not None
        process.stdout.readline()
        while process.poll() is None:
            process.send_signal(signal.SIGTERM)
        assert process.returncode == 128 + signal.SIGTERM
        assert process.communicate()[0] == "flushed\n"


def test_a_refused_start_says_why_in_one_line() -> None:
    with start("refuse") as process:
        _, errors = process.communicate()
        assert process.returncode == EXIT_REFUSED
        assert 'kind=Incompatible detail="the layouts differ"' in errors
        assert len(errors.splitlines()) == 1


def test_a_dying_background_task_ends_the_service_with_its_story() -> None:
    with start("lose_a_task") as process:
        out, errors = process.communicate()
        assert process.returncode == EXIT_BUG
        assert "RuntimeError: gone" in errors
        assert "flushed" in out


def test_zmq05_a_child_ends_when_its_parent_is_killed() -> None:
    middle = "\n".join(
        [
            "import subprocess, sys, os, time",
            "child = subprocess.Popen([sys.executable, '-c', sys.argv[1].replace('PARENT', str(os.getpid()))])",
            "child.wait()",
        ]
    )
    script = PROLOGUE + "sys.exit(run_service(Log('x', 1), linger, PARENT))"
    with subprocess.Popen([sys.executable, "-c", middle, script], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        assert parent.stdout.readline() == "up\n"
        parent.kill()
        assert parent.stdout.read() == ""  # the pipe closes when the last process that holds it has ended


def test_a_child_whose_parent_was_gone_already_does_not_start() -> None:
    with start("wait", str(os.getpid() + 1)) as process:
        assert process.communicate()[0] == ""
        assert process.returncode == 128 + signal.SIGKILL
