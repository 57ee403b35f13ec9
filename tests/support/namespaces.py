"""Commands in network, PID, IPC and mount namespaces of their own, joined by a bridge: containers without an engine."""

from __future__ import annotations

import os
import shlex
import subprocess
from pathlib import Path
from typing import IO

SUBNET = "10.77.0"
_PREPARE = "ip link set lo up && {mounts} echo up && read go && exec {command}"


def can_unshare() -> bool:
    probe = ["unshare", "--fork", "--pid", "--net", "--ipc", "--mount", "ip", "link", "set", "lo", "up"]
    try:
        return subprocess.run(probe, capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        return False


class Container:
    """One command in its namespaces. It waits for `go` until its network is there."""

    def __init__(self, command: list[str], environment: dict[str, str], mounts: dict[str, str], log: IO[bytes]) -> None:
        prepared = "".join(f"{step} && " for step in _mount_steps(mounts))
        script = _PREPARE.format(mounts=prepared, command=shlex.join(command))
        unshare = ["unshare", "--fork", "--pid", "--mount-proc", "--net", "--ipc", "--mount", "--kill-child"]
        self.process = subprocess.Popen(
            [*unshare, "sh", "-c", script],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            env=environment,
            text=True,
        )
        self._environment = environment
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == "up\n"

    def go(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def run_inside(self, command: list[str], data: str = "") -> subprocess.CompletedProcess[str]:
        """A command in the same network."""
        entered = ["nsenter", "--net", "--target", str(self.process.pid), *command]
        return subprocess.run(entered, input=data, env=self._environment, capture_output=True, text=True, check=False)

    def end(self) -> None:
        self.process.kill()  # its child goes with it (--kill-child)
        self.process.communicate()


class Network:
    """A bridge in a namespace of its own; `client` is a place on it that is no service."""

    def __init__(self, log: IO[bytes]) -> None:
        self.client = Container(["sleep", "infinity"], dict(os.environ), {}, log)
        self.client.go()
        self._run("ip link add br0 type bridge")
        self._run(f"ip addr add {SUBNET}.1/24 dev br0")
        self._run("ip link set br0 up")

    def join(self, container: Container, number: int) -> None:
        """Give it the address `SUBNET.number`."""
        pid = container.process.pid
        self._run(f"ip link add veth{number} type veth peer name eth0 netns {pid}")
        self._run(f"ip link set veth{number} master br0 up")
        for step in (f"ip addr add {SUBNET}.{number}/24 dev eth0", "ip link set eth0 up"):
            check(container.run_inside(step.split()))

    def end(self) -> None:
        self.client.end()

    def _run(self, step: str) -> None:
        check(self.client.run_inside(step.split()))


def check(done: subprocess.CompletedProcess[str]) -> str:
    assert done.returncode == 0, f"{done.args}: {done.stderr}"
    return done.stdout


def write_hosts(path: Path, addresses: dict[str, int]) -> None:
    lines = ["127.0.0.1 localhost", *(f"{SUBNET}.{number} {name}" for name, number in addresses.items())]
    path.write_text("\n".join(lines) + "\n")


def _mount_steps(mounts: dict[str, str]) -> list[str]:
    """Bind each source to its target; targets below /var/lib are made on a private empty one."""
    steps = ["mount -t tmpfs none /var/lib"] if any(t.startswith("/var/lib/") for t in mounts.values()) else []
    for source, target in mounts.items():
        if target.startswith("/var/lib/"):
            steps.append(f"mkdir -p {shlex.quote(target)}")
        steps.append(f"mount --bind {shlex.quote(source)} {shlex.quote(target)}")
    return steps
