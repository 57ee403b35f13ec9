"""The compose file: valid by the published schema, and its very commands and environment serve, each service in
namespaces of its own with names that resolve."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from baton.core.metrics.report import decode_report
from tests.support.completions import Question, expected_tokens
from tests.support.namespaces import Container, Network, can_unshare, check, write_hosts

FOLDER = Path(__file__).parents[2] / "compose"
TOLD = {"BATON_DEVICE": "fake", "BATON_MODEL": "tiny", "BATON_KV_BYTES": "1048576"}
ORDER = ("scheduler", "prefill", "decode", "router")
ADDRESSES = {name: 10 + index for index, name in enumerate(("keys", "model", *ORDER, "loadgen"))}
ASK = "import sys, urllib.request as r; print(r.urlopen(r.Request(sys.argv[1], sys.stdin.buffer.read(), \
{'Content-Type': 'application/json'}), timeout=60).read().decode())"


def read_compose(name: str) -> dict[str, Any]:
    """The file with its variables filled in, as compose does."""

    def value(match: re.Match[str]) -> str:
        return TOLD.get(match[1], match[2])

    text = re.sub(r"\$\{(\w+):-([^}]*)\}", value, (FOLDER / name).read_text())
    return dict(YAML(typ="safe").load(text))


def test_the_compose_file_is_valid_by_the_published_schema() -> None:
    command = [
        sys.executable,
        "-m",
        "check_jsonschema",
        "--builtin-schema",
        "vendor.compose-spec",
        str(FOLDER / "compose.yaml"),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_only_the_router_is_published_and_only_on_loopback() -> None:
    services = read_compose("compose.yaml")["services"]
    published = {name: service["ports"] for name, service in services.items() if "ports" in service}
    assert published == {"router": ["127.0.0.1:8000:8000"]}


class Composed:
    """The services of compose.yaml as processes."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self.services = read_compose("compose.yaml")["services"]
        self.containers: dict[str, Container] = {}
        self._folder = folder
        self._stack = stack
        self._log = stack.enter_context((folder / "compose.log").open("wb"))
        self.network = Network(self._log)
        stack.callback(self.network.end)
        write_hosts(folder / "hosts", ADDRESSES)

    def start(self, name: str) -> Container:
        service = self.services[name]
        environment = {"PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin:/usr/sbin:/sbin", "HOME": "/nonexistent"}
        environment |= {key: str(value) for key, value in service.get("environment", {}).items()}
        command = [*("env", f"--chdir={service.get('working_dir', '/')}"), *service["command"]]
        container = Container(command, environment, self._mounts(service), self._log)
        self._stack.callback(container.end)
        self.network.join(container, ADDRESSES[name])
        container.go()
        self.containers[name] = container
        return container

    def until_healthy(self, name: str) -> None:
        test = self.services[name]["healthcheck"]["test"]
        assert test[0] == "CMD"
        while self.containers[name].run_inside(test[1:]).returncode != 0:
            assert self.containers[name].process.poll() is None, self.log()

    def log(self) -> str:
        return (self._folder / "compose.log").read_text()

    def volume(self, name: str) -> Path:
        return self._folder / name

    def _mounts(self, service: dict[str, Any]) -> dict[str, str]:
        mounts = {str(self._folder / "hosts"): "/etc/hosts"}
        for volume in service["volumes"]:
            source, target = volume.split(":")[:2]
            (self._folder / source).mkdir(exist_ok=True)
            mounts[str(self._folder / source)] = target
        return mounts


@pytest.fixture
def composed(tmp_path: Path) -> Iterator[Composed]:
    if not can_unshare():
        pytest.skip("namespaces cannot be made here")
    with ExitStack() as stack:
        yield Composed(tmp_path, stack)


def test_the_commands_of_compose_serve_in_namespaces_of_their_own(composed: Composed) -> None:
    for name in ("keys", "model"):
        assert composed.start(name).process.wait(60) == 0, composed.log()
    for name in ORDER:
        composed.start(name)
    for name in ORDER:
        composed.until_healthy(name)
    question = Question(tuple(b"from another network"), 12, 5)
    body = json.dumps({**question.body(), "stream": False})
    asked = composed.network.client.run_inside(
        [sys.executable, "-P", "-c", ASK, f"http://10.77.0.{ADDRESSES['router']}:8000/v1/completions"], body
    )
    assert json.loads(check(asked))["choices"][0]["logprobs"]["tokens"] == expected_tokens(question)
    assert composed.start("loadgen").process.wait(60) == 0, composed.log()
    (report,) = composed.volume("results").glob("bench-*/report.json")
    counts = decode_report(report.read_bytes()).summary.counts
    assert (counts.planned, counts.succeeded) == (64, 64)
