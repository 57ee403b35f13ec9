"""A folder of files about one run of vLLM on one card, as LLMServingSim's benchmark and profiler write them: what the
engine was told, when each request was asked and answered, and what the kernels of the same card take.

    *meta.json              limits of the engine: sequences, tokens a step, KV blocks
    *requests.jsonl         one line for each request
    *dense.csv              layer,tokens,time_us
    *per_sequence.csv       layer,sequences,time_us
    *attention.csv          prefill_chunk,kv_prefill,n_decode,kv_decode,time_us

Further fields, columns and files are not looked at. Whatever is wrong is told with its file, line and field.
"""

from __future__ import annotations

import csv
import math
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any, NamedTuple, TypeVar

import msgspec

from baton.core.file_errors import BadFile, what_and_field
from baton.core.sim.step_time.kernels import AttentionShape, Curve, KernelTables

DENSE = ("qkv_proj", "o_proj", "gate_up_proj", "down_proj")  #: without these the table is of another kind of model
HEAD = ("lm_head",)
US = 1e-6
MAX_WRITTEN = 1e12  #: of a number in a table

Count = Annotated[int, msgspec.Meta(ge=1, le=1 << 40)]
Time = Annotated[float, msgspec.Meta(ge=0, le=1e12)]
Struct = TypeVar("Struct", bound=msgspec.Struct)


class BadData(BadFile):
    """A file of the folder cannot be used. Says the file, the line and the field, as far as there are any."""

    def __init__(self, path: Path, what: str, field: str = "", line: int = 0) -> None:
        super().__init__(f"{path}: line {line}" if line else str(path), what, field)


class MeasuredRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds: `arrival_time` of the client's clock, the others of the engine's."""

    input_toks: Count
    output_toks: Count
    arrival_time: Time
    queued_ts: Time
    first_token_ts: Time
    last_token_ts: Time


class Told(msgspec.Struct, frozen=True, kw_only=True):
    """What of the engine's settings matters here, as far as it is in one table of `*meta.json`."""

    max_num_seqs: Count | None = None
    max_num_batched_tokens: Count | None = None
    max_model_len: Count | None = None
    tensor_parallel_size: int = 1
    pipeline_parallel_size: int = 1
    data_parallel_size: int = 1
    enable_expert_parallel: bool = False
    policy: str = "fcfs"
    enable_chunked_prefill: bool = True
    async_scheduling: bool = True
    long_prefill_token_threshold: Annotated[int, msgspec.Meta(ge=0)] = 0


class Captured(msgspec.Struct, frozen=True, kw_only=True):
    cudagraph_capture_sizes: tuple[Count, ...] = ()


class Resolved(msgspec.Struct, frozen=True, kw_only=True):
    scheduler_config: Told = Told()
    model_config: Told = Told()
    parallel_config: Told = Told()
    compilation_config: Captured = Captured()
    speculative_config: Any = None


class KvCache(msgspec.Struct, frozen=True, kw_only=True):
    num_gpu_blocks: Count
    block_size: Count
    enable_prefix_caching: bool = True


class Hardware(msgspec.Struct, frozen=True, kw_only=True):
    device_name: str = "an unnamed device"


class Meta(msgspec.Struct, frozen=True, kw_only=True):
    """`*meta.json`."""

    model: str
    vllm_version: str = ""
    engine_kwargs: Told = Told()
    kv_cache: KvCache
    hardware: Hardware = Hardware()
    resolved_config: Resolved = Resolved()


class Engine(NamedTuple):
    """The engine of the run."""

    name: str  #: of the model
    version: str
    device: str
    num_slots: int
    token_budget: int
    max_model_len: int
    long_prefill_tokens: int
    num_queued_steps: int
    num_blocks: int
    block_size: int
    captured: tuple[int, ...]
    has_prefix_cache: bool


class Measured(NamedTuple):
    """Everything of the folder."""

    engine: Engine
    requests: list[MeasuredRequest]  #: in the order of their arrival
    tables: KernelTables


def read_measured(folder: Path) -> Measured:
    """Raises BadData or OSError."""
    if not folder.is_dir():
        raise BadData(folder, "there is no such folder")
    return Measured(
        _read_engine(_only(folder, "*meta.json")),
        _read_requests(_only(folder, "*requests.jsonl")),
        KernelTables(
            _read_curves(_only(folder, "*dense.csv"), "tokens", DENSE),
            _read_curves(_only(folder, "*per_sequence.csv"), "sequences", HEAD),
            _read_attention(_only(folder, "*attention.csv")),
        ),
    )


def _only(folder: Path, pattern: str) -> Path:
    found = sorted(folder.glob(pattern))
    if len(found) != 1:
        names = ", ".join(path.name for path in found)
        raise BadData(folder, f"{len(found)} files {pattern}, one is needed{f': {names}' if names else ''}")
    return found[0]


# ---- meta.json


def _read_engine(path: Path) -> Engine:
    meta = _decoded(path, path.read_bytes(), Meta)
    told, resolved = meta.engine_kwargs, meta.resolved_config
    _refuse_others(path, meta)

    def limit(name: str, *tables: Told) -> int:
        values = [value for table in tables if (value := getattr(table, name)) is not None]
        if not values:
            raise BadData(path, "is missing", f"engine_kwargs.{name}")
        return int(values[0])

    scheduler = resolved.scheduler_config
    token_budget = limit("max_num_batched_tokens", scheduler, told)
    return Engine(
        name=meta.model,
        version=meta.vllm_version,
        device=meta.hardware.device_name,
        num_slots=limit("max_num_seqs", scheduler, told),
        token_budget=token_budget,
        max_model_len=limit("max_model_len", resolved.model_config, told),
        long_prefill_tokens=scheduler.long_prefill_token_threshold or token_budget,
        num_queued_steps=2 if scheduler.async_scheduling else 1,
        num_blocks=meta.kv_cache.num_gpu_blocks,
        block_size=meta.kv_cache.block_size,
        captured=tuple(sorted(resolved.compilation_config.cudagraph_capture_sizes)),
        has_prefix_cache=meta.kv_cache.enable_prefix_caching,
    )


def _refuse_others(path: Path, meta: Meta) -> None:
    """What the tables do not say or the executors here do not do."""
    resolved = meta.resolved_config
    for table, told in (("engine_kwargs", meta.engine_kwargs), ("parallel_config", resolved.parallel_config)):
        for name in ("tensor_parallel_size", "pipeline_parallel_size", "data_parallel_size"):
            if getattr(told, name) != 1:
                what = f"{getattr(told, name)}: the tables say nothing of what cards tell each other"
                raise BadData(path, what, f"{table}.{name}")
        if told.enable_expert_parallel:
            raise BadData(path, "true: experts are not in the tables", f"{table}.enable_expert_parallel")
    scheduler = resolved.scheduler_config
    if scheduler.policy != "fcfs":
        raise BadData(path, f"{scheduler.policy!r}, only fcfs is simulated", "scheduler_config.policy")
    if not scheduler.enable_chunked_prefill:
        raise BadData(path, "false: prompts are computed in chunks here", "scheduler_config.enable_chunked_prefill")
    if resolved.speculative_config is not None:
        raise BadData(path, "a step here gives one token", "resolved_config.speculative_config")


# ---- requests.jsonl


def _read_requests(path: Path) -> list[MeasuredRequest]:
    found = []
    for line, text in enumerate(path.read_bytes().splitlines(), 1):
        if text.strip():
            request = _decoded(path, text, MeasuredRequest, line)
            for earlier, later in (("queued_ts", "first_token_ts"), ("first_token_ts", "last_token_ts")):
                if getattr(request, later) < getattr(request, earlier):
                    raise BadData(path, f"is before {earlier}", later, line)
            found.append(request)
    if not found:
        raise BadData(path, "no requests")
    return sorted(found, key=lambda request: request.arrival_time)


# ---- tables


def _read_curves(path: Path, over: str, needed: tuple[str, ...]) -> dict[str, Curve]:
    points: dict[str, dict[int, float]] = defaultdict(dict)
    for line, row, number in _rows(path, ("layer", over, "time_us")):
        x = _whole(path, line, over, number(over))
        if x in points[row["layer"]]:
            raise BadData(path, f"{x} is there twice for {row['layer']}", over, line)
        points[row["layer"]][x] = number("time_us") * US
    for layer in needed:
        if layer not in points:
            what = f"no rows of {layer}: models of plain attention and one MLP in each layer are read, no others"
            raise BadData(path, what, "layer")
    for layer, curve in points.items():
        if len(curve) < 2:
            raise BadData(path, f"one row of {layer}, at least two are needed", "layer")
    return {layer: tuple(sorted(curve.items())) for layer, curve in points.items()}


def _read_attention(path: Path) -> list[AttentionShape]:
    names = ("prefill_chunk", "kv_prefill", "n_decode", "kv_decode")
    shapes = []
    for line, _, number in _rows(path, (*names, "time_us")):
        chunk, before, decodes, context = (_whole(path, line, name, number(name)) for name in names)
        shapes.append(AttentionShape(chunk, before, decodes, context, number("time_us") * US))
    return shapes


def _rows(path: Path, columns: tuple[str, ...]) -> Iterator[tuple[int, dict[str, str], Callable[[str], float]]]:
    """(line, row, how its numbers are read)."""
    try:
        reader = csv.DictReader(path.read_text(encoding="utf-8").splitlines())
    except UnicodeDecodeError as error:
        raise BadData(path, f"no UTF-8: {error.reason}") from error
    for column in columns:
        if column not in (reader.fieldnames or ()):
            raise BadData(path, f"there is no column {column}", column, 1)
    for row in reader:
        line = reader.line_num

        def number(name: str, row: dict[str, str] = row, line: int = line) -> float:
            try:
                value = float(row[name])
            except (TypeError, ValueError):
                raise BadData(path, f"{row[name]!r} is no number", name, line) from None
            if not 0 <= value <= MAX_WRITTEN:
                raise BadData(path, f"{row[name]} is not from 0 to {MAX_WRITTEN:g}", name, line)
            return value

        yield line, row, number


def _whole(path: Path, line: int, name: str, value: float) -> int:
    if value != math.floor(value):
        raise BadData(path, f"{value} is no whole number", name, line)
    return int(value)


def _decoded(path: Path, data: bytes, kind: type[Struct], line: int = 0) -> Struct:
    try:
        return msgspec.json.decode(data, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        what, field = what_and_field(error)
        raise BadData(path, what, field, line) from error
