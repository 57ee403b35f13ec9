"""Dynamo's front end before its mocker, an engine that answers at once."""

from __future__ import annotations

from pathlib import Path

from bench.systems import Programs, served_model

PORT = 8888
MODEL = "m"
PLANES = ("--discovery-backend", "file", "--request-plane", "tcp", "--event-plane", "zmq")
#: as much room as the configuration of our fake executors (bench/control_plane.py)
ROOM = ("--max-num-seqs", "600", "--num-gpu-blocks-override", "40000", "--max-num-batched-tokens", "65536")
MODES = {"prefill": "mocker prefill", "decode": "mocker decode", "agg": "mocker"}


class Dynamo:
    """`python` is that of an environment with `ai-dynamo`; `model` a folder with a tokenizer and a chat template.

    It listens on all addresses: only in a network of its own.
    """

    port = PORT
    model = MODEL

    def __init__(self, name: str, folder: Path, model: Path, python: Path, *, is_split: bool) -> None:
        self.name = name
        # no logs of single requests: they cost it as much as the requests
        environment = {"DYN_FILE_KV": str(folder / "kv"), "HF_HUB_OFFLINE": "1", "DYN_LOG": "error"}
        program = [str(python.absolute()), "-m"]
        front = ["dynamo.frontend", "--router-mode", "kv", "--http-port", str(PORT)]
        mocker = ["dynamo.mocker", "--model-path", str(model), "--model-name", MODEL, "--speedup-ratio", "1000", *ROOM]
        self._programs = Programs(folder)
        self._pids = {"front end": [self._programs.start("front", [*program, *front, *PLANES], environment)]}
        for mode in ("prefill", "decode") if is_split else ("agg",):
            command = [*program, *mocker, "--disaggregation-mode", mode, *PLANES]
            self._pids[MODES[mode]] = [self._programs.start(mode, command, environment)]
        self._programs.wait_until(lambda: served_model(PORT) == MODEL)

    def processes(self) -> dict[str, list[int]]:
        return self._pids

    def close(self) -> None:
        self._programs.close()
