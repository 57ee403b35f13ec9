"""One run as data: the fleet, its knobs, the requests of the clients and the faults. A scenario and its seed are a run.

Requests and faults are plain lists, so that a failing run can be made smaller by leaving some of them out.
"""

from __future__ import annotations

import msgspec

from baton.core.config import ExecutorConfig, RouterConfig, SchedulerConfig
from baton.core.ids import Role
from baton.core.wire.sampling import SamplingParams


class ExecutorSpec(msgspec.Struct, frozen=True):
    """One executor of the fleet."""

    name: str
    role: Role
    num_blocks: int
    config: ExecutorConfig


class Client(msgspec.Struct, frozen=True):
    """One client's request, and what the client does besides waiting."""

    at: float  #: virtual seconds
    router: int  #: index of the router that it asks
    prompt: tuple[int, ...]
    sampling: SamplingParams
    num_choices: int = 1
    timeout_s: float = 60.0
    priority_class: int = 0
    tenant: str = ""
    salt: int = 0
    gone_after_s: float | None = None  #: it disconnects so long after its arrival
    stop_at: tuple[int, int] | None = None  #: (choice, offset): a stop string is found when that many tokens are out


class Fault(msgspec.Struct, frozen=True):
    """Something that goes wrong at `at`. What the numbers mean is written beside each kind in `faults.py`."""

    at: float
    kind: str
    target: int = 0  #: which process or connection, modulo how many there are
    duration_s: float = 0.0
    number: int = 0
    detail: str = ""


class Scenario(msgspec.Struct, frozen=True):
    """Everything of a run but its code."""

    seed: int
    executors: tuple[ExecutorSpec, ...]
    num_routers: int
    scheduler: SchedulerConfig
    router: RouterConfig
    block_size: int
    num_kv_layers: int
    max_model_len: int
    clients: tuple[Client, ...]
    faults: tuple[Fault, ...]
    faults_end_at: float  #: from here on nothing goes wrong any more
    heartbeat_s: float = 0.25
    silence_s: float = 0.9
    latency_s: float = 5e-4
    max_unread: int = 1000
    transport: str = "tcp"  #: "tcp" or "cma"
    bytes_per_s: float = 2e5  #: of a copy inside a post
    fragment_s: float = 2e-4  #: of a fragment's landing over TCP
    busy_loop_s: float = 0.0  #: how long a loop may leave unread what threads and sockets bring: it comes together
    end_one_in: int = 0
    tells_progress: bool = False  #: devices say what of a step's KV is written before it ends
    is_told_of_exits: bool = True  #: somebody who started the processes sees their exits; otherwise nobody does
    keeps_addresses: bool = True  #: a restarted process is found where its predecessor was
    strict_reads: bool = True
    checkpoint_blocks: int = 1  #: blocks between saved states; 1: attention alone
    step_base_s: float = 4e-3
    step_token_s: float = 1e-4
