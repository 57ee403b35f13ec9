"""`baton up` as its user meets it: one command starts everything, keeps it running, and ends all of it."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from select import select

import pytest

from baton.services.runtime.lifecycle import EXIT_REFUSED
from baton.services.sim.replay import main as replay
from tests.support.completions import Question, expected_tokens
from tests.support.stack import free_port

HANG_LIMIT_S = 60.0
STARTED = re.compile(r"what=started child=(\w+) child_epoch=(\d+) pid=(\d+)")
CONFIG = """
[device]
num_blocks = 64
block_size = 16
[executor]
token_budget = 64
num_slots = 16
"""


class Deployment:
    """A running `baton up`."""

    def __init__(self, process: subprocess.Popen[str], port: int) -> None:
        self.process = process
        self.port = port
        self.pids: dict[str, int] = {}  #: by child: of its newest life

    def read_until(self, pattern: str) -> str:
        """Follow the log up to the first line that matches."""
        assert self.process.stderr is not None
        for line in self.process.stderr:
            if started := STARTED.search(line):
                self.pids[started[1]] = int(started[3])
            if re.search(pattern, line):
                return line
        raise AssertionError(f"the log ended without {pattern!r}")

    def until_ready(self) -> None:
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == f"ready: http://127.0.0.1:{self.port}/v1/completions\n"

    def check_answer(self) -> None:
        question = Question((104, 101, 108, 108, 111), 6, 3)
        body = json.dumps({**question.body(), "stream": False}).encode()
        url = f"http://127.0.0.1:{self.port}/v1/completions"
        request = urllib.request.Request(url, body, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=60) as response:
            assert json.load(response)["choices"][0]["logprobs"]["tokens"] == expected_tokens(question)


@contextmanager
def deployment(
    model: Path, folder: Path, port: int, config: str = CONFIG, executors: tuple[str, ...] = ()
) -> Iterator[Deployment]:
    (folder / "up.toml").write_text(config)
    command = [sys.executable, "-P", "-m", "baton.services.cli.main", "up", "--device", "fake", "--port", str(port)]
    command += [
        *executors,
        "--model",
        str(model),
        "--config",
        str(folder / "up.toml"),
        "--journal",
        str(folder / "journal"),
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield Deployment(process, port)
        finally:
            process.kill()


def is_running(pid: int) -> bool:
    """Whether it exists and is no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@contextmanager
def watch_ends(pids: Iterable[int]) -> Iterator[list[int]]:
    """A file descriptor for each running process: readable when it has ended."""
    with ExitStack() as stack:
        ends = [os.pidfd_open(pid) for pid in pids]
        for end in ends:
            stack.callback(os.close, end)
        yield ends


def listening_addresses(pid: int) -> set[str]:
    """Local addresses, as hexadecimal, of the TCP sockets that the process listens on."""
    inodes = set()
    for link in Path(f"/proc/{pid}/fd").iterdir():
        try:
            inodes.add(link.readlink().name)
        except FileNotFoundError:
            continue
    addresses = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        for line in Path(table).read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and f"socket:[{fields[9]}]" in inodes:
                addresses.add(fields[1].partition(":")[0])
    return addresses


def test_one_command_serves_restarts_what_dies_listens_on_loopback_and_ends_all_of_it(
    tiny: Path, tmp_path: Path
) -> None:
    with deployment(tiny, tmp_path, free_port()) as up:
        up.read_until("what=started child=router")
        up.until_ready()
        up.check_answer()
        assert set().union(*(listening_addresses(pid) for pid in up.pids.values())) == {"0100007F"}
        for name in ("decode0", "prefill0", "scheduler"):
            old = up.pids[name]
            subprocess.run(["kill", "-9", str(old)], check=True)
            up.read_until(f"what=started child={name}")
            assert up.pids[name] != old
        up.check_answer()
        up.process.send_signal(signal.SIGTERM)
        up.read_until("what=exited child=scheduler")
        assert up.process.wait(60) == 0
        assert not any(is_running(pid) for pid in up.pids.values())
    journals = list((tmp_path / "journal").glob("*.journal"))
    assert len(journals) == len(up.pids) + 3  # each life has its own
    assert replay([*map(str, journals), "--hash-key", str(tmp_path / "journal" / "hash.key")]) == 0


def test_zmq05_no_child_outlives_a_killed_launcher_and_a_new_one_starts_at_once(tiny: Path, tmp_path: Path) -> None:
    port = free_port()
    with deployment(tiny, tmp_path, port) as up:
        up.read_until("what=started child=router")
        up.until_ready()
        with watch_ends(up.pids.values()) as ends:
            up.process.kill()
            for name, end in zip(up.pids, ends, strict=True):
                assert select([end], [], [], HANG_LIMIT_S)[0], f"{name} outlived its launcher"
    with deployment(tiny, tmp_path, port) as up:
        up.read_until("what=started child=router")
        up.until_ready()
        up.check_answer()


def test_zmq05_a_port_in_use_ends_the_start_before_anything_is_started_and_is_named(tiny: Path, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with deployment(tiny, tmp_path, port) as up:
            out, log = up.process.communicate(timeout=HANG_LIMIT_S)
            assert up.process.returncode == EXIT_REFUSED
    assert out == ""
    assert log == f"baton up: cannot listen on 127.0.0.1:{port} (--host, --port): Address already in use\n"


def test_r2_decode_executors_alone_answer(tiny: Path, tmp_path: Path) -> None:
    with deployment(tiny, tmp_path, free_port(), executors=("--prefill", "0")) as up:
        up.read_until("what=started child=router")
        up.until_ready()
        up.check_answer()
        assert "prefill0" not in up.pids


@pytest.mark.parametrize(
    ("executors", "knobs", "why"),
    [
        (("--prefill", "0", "--strict-pd"), "", "--prefill 0: with strict_pd nothing is answered without a prefill"),
        (("--decode", "0"), "", "--decode 0: without a decode executor nothing is answered"),
        ((), "[decode]\nparked_tokens = 9\n", "decode.parked_tokens = 9 has no effect: only on a prefill executor"),
        ((), "[prefill]\nnum_slots = 3000000000\n", "prefill.num_slots = 3000000000: must be at most 2147483647"),
        ((), "[decode]\nnum_slots = 65\n", "decode.num_slots = 65: at most token_budget = 64"),
    ],
)
def test_c12_a_deployment_that_cannot_be_is_refused_in_one_line(
    tiny: Path, tmp_path: Path, executors: tuple[str, ...], knobs: str, why: str
) -> None:
    with deployment(tiny, tmp_path, free_port(), CONFIG + knobs, executors) as up:
        out, log = up.process.communicate(timeout=HANG_LIMIT_S)
        assert up.process.returncode == EXIT_REFUSED
    assert (out, log.count("\n")) == ("", 1)
    assert log.startswith(f"baton up: {why}")


@pytest.mark.parametrize(
    ("knobs", "why"),
    [
        ("[device]\nkv_bytes = 1000\n", "(prefill|decode)0 cannot start: device.kv_bytes = 1000: 0 KV blocks"),
        ("[prefill]\npiece_bytes = 7\n", "prefill0 cannot start: piece_bytes = 7: one slot of one plane has 8"),
    ],
    ids=["too little memory", "pieces smaller than a slot"],
)
def test_a_child_that_cannot_start_ends_the_start_and_the_last_line_says_why(
    tiny: Path, tmp_path: Path, knobs: str, why: str
) -> None:
    with deployment(tiny, tmp_path, free_port(), knobs) as up:
        out, log = up.process.communicate(timeout=HANG_LIMIT_S)
        assert up.process.returncode == EXIT_REFUSED
    assert out == ""
    assert re.search(why, log.splitlines()[-1])
    assert all(log.count(f"what=started child={name}0") == 1 for name in ("prefill", "decode"))
    assert "Traceback" not in log
    assert "never retrieved" not in log


def test_it_serves_where_it_was_told_to_over_ipv6_too(tiny: Path, tmp_path: Path) -> None:
    config = CONFIG + "[http]\nhost = '::1'\n"
    with deployment(tiny, tmp_path, free_port(), config, executors=("--unified", "1")) as up:
        assert up.process.stdout is not None
        assert up.process.stdout.readline() == f"ready: http://[::1]:{up.port}/v1/completions\n"
        up.process.send_signal(signal.SIGTERM)
        up.read_until("what=exited child=scheduler")
        assert up.process.wait(60) == 0
