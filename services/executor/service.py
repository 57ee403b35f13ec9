"""An executor as a process: its machine, and beside it the device, a compute thread and a transfer thread."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgspec

from baton.core.config import ExecutorConfig
from baton.core.errors import Incompatible, InvariantViolated
from baton.core.executor import events as ev
from baton.core.executor.cohorts import Cohorts
from baton.core.executor.events import Piece
from baton.core.executor.machine import ExecutorCore
from baton.core.ids import Capacity, Role
from baton.core.sim.step_time.observed import ObservedSteps
from baton.services.executor.compute_lanes import ComputeLanes
from baton.services.executor.engine.devices.base import Device
from baton.services.executor.engine.devices.fake import FAKE_VOCAB_SIZE, FakeDevice, fake_layout
from baton.services.executor.engine.grammar_masks import GrammarMasks
from baton.services.executor.engine.load import load_device
from baton.services.executor.lanes import lane_cores
from baton.services.executor.ranks.processes import EXIT_GROUP_INCOMPLETE, GroupIncomplete, RankProcesses
from baton.services.executor.ranks.start import plan_ranks, start_group
from baton.services.executor.reports import Reports
from baton.services.executor.step_log import StepLog
from baton.services.executor.transfer.environment import configure_transport_environment
from baton.services.grammar.matcher import Matchers
from baton.services.grammar.vocabulary import load_vocabulary
from baton.services.model.folder import read_model_info
from baton.services.runtime.cores import parse_cores
from baton.services.runtime.entry import run_role
from baton.services.runtime.lifecycle import Lifecycle
from baton.services.runtime.log import Log
from baton.services.runtime.metrics import Distribution, Row
from baton.services.runtime.process import Process
from baton.services.runtime.settings import DeviceSettings, Settings, SettingsInvalid
from baton.services.transport.endpoints import is_local
from baton.services.transport.keys import KeyRing

NUM_SPARE_BLOCKS = 1  #: lets a wholly cached prompt compute its last token alone, in a copy of its last block
TRANSFER_COMMANDS = (ev.OpenTransport, ev.ConnectTransport, ev.CloseTransport, ev.Drive, ev.Post)


class Engine:
    """The threads beside the machine and what they work on. They only post events."""

    def __init__(
        self,
        process: Process,
        device: Device[Any],
        masks: GrammarMasks | None,
        ranks: RankProcesses | None,
        num_lanes: int,
        piece_bytes: int,
    ) -> None:
        from baton.services.executor.ranks.transfer import GroupTransfer
        from baton.services.executor.transfer.region import KvRegion
        from baton.services.executor.transfer.thread import TransferThread  # loads NIXL: after its environment

        own = process.own
        crash = process.life.fail
        say = Reports(asyncio.get_running_loop(), process.driver.post).say
        self.steps = StepLog()

        def post(event: ev.ThreadEvent) -> None:
            self.steps.said(event)
            say(event)

        region = KvRegion(device.kv_base_address, device.num_blocks, device.layout)
        self._life = process.life
        self._masks = masks
        self._device = device
        self._process = process
        self.compute = ComputeLanes(device, num_lanes, post, crash)
        if own.role is Role.PREFILL:
            device.tell_progress(lambda step_id, num_planes: post(ev.StepAdvanced(step_id, num_planes)))
        faults = piece_faults(process.settings.device)
        self.transfer: TransferThread | GroupTransfer

        def own_transfer(say: Callable[[ev.ThreadEvent], object]) -> TransferThread:
            name = f"{own.name}/{own.epoch}"
            return TransferThread(region, name, say, crash, max_piece_bytes=piece_bytes, faults=faults)

        if ranks is None:
            self.transfer = own_transfer(post)
        else:
            self.transfer = GroupTransfer(own_transfer, ranks.channels(), post, crash)
            process.metrics.add_rows(lambda: rank_rows(device, self.transfer))
            ranks.watch(lambda why: post(ev.StepFailed(0, "rank", False, why)))
        process.driver.perform(ev.Launch, self._launch)
        process.driver.perform(ev.Exit, self._exit)
        for command in TRANSFER_COMMANDS:
            process.driver.perform(command, self.transfer.submit)
        process.metrics.add_gauges(self._gauges)

    def start(self) -> None:
        self.compute.start()
        self.transfer.start()

    def stop(self) -> bool:
        """End both threads; whether every launched step was proven to have ended."""
        proven = self.compute.stop()
        if proven and (wrong := self.compute.close()):
            self._life.log.warn("the device did not close", detail=wrong)
        self.transfer.stop()
        if self._masks is not None:
            self._masks.close()
        return proven

    def sickness(self) -> str:
        dead = [
            name for name, thread in (("compute", self.compute), ("transfer", self.transfer)) if not thread.is_alive
        ]
        return "" if not dead else f"the {' and the '.join(dead)} thread ended"

    def _launch(self, command: ev.Launch) -> None:
        self.steps.launched(command)
        self.compute.submit(command.plan)

    def steps_page(self, query: Mapping[str, str]) -> ObservedSteps:
        """The last steps, of `?after=STEP` on. Raises ValueError."""
        device, kind = self._device, self._process.settings.device.kind
        after = int(query.get("after", "0"))
        return self.steps.page(self._process.own.name, kind, device.layout, device.num_blocks, after)

    def _exit(self, command: ev.Exit) -> None:
        self._life.log.error("exit", code=command.code, detail=command.detail)
        self._life.exit_now(command.code)

    def _gauges(self) -> dict[str, float]:
        counters = self.transfer.counters
        matchers = self._masks.matchers if self._masks is not None else None
        return {
            "grammars_compiled_total": float(matchers.num_compiled if matchers else 0),
            "grammars_failed_total": float(matchers.num_failed if matchers else 0),
            "device_steps_launched_total": float(self.compute.num_launched),
            "device_steps_proven_total": float(self.compute.num_proven),
            "kv_transfer_bytes_total": float(counters.num_posted_bytes),
            "kv_transfer_submitted_pieces_total": float(counters.num_submitted_pieces),
            "kv_transfer_posted_pieces_total": float(counters.num_posted_pieces),
            "kv_transfer_landed_pieces_total": float(counters.num_landed_pieces),
            "kv_transfer_landed_bytes_total": float(counters.num_landed_bytes),
            "kv_transfer_failed_pieces_total": float(counters.num_failed_pieces),
            "kv_transfer_agents_opened_total": float(counters.num_agents_opened),
            "kv_transfer_agents_closed_total": float(counters.num_agents_closed),
            "kv_transfer_post_seconds_total": counters.post_s,
        }


def decode_rows(cohorts: Cohorts) -> Iterator[Row]:
    """Decode steps for `/metrics`, by padded batch and whether prompt chunks were in the same step."""
    for key, cohort in sorted(cohorts.by_key.items()):
        labels = {"padded_batch": str(key.padded_batch), "mixed": str(key.is_mixed).lower()}
        yield Row("decode_steps", labels, cohort.num_steps)
        yield Row("decode_step_seconds", labels, cohort.duration_s)
        yield Row("decode_step_sequences", labels, cohort.num_sequences)
        yield Row("decode_step_activations", labels, cohort.num_activated)


def rank_rows(device: Any, transfer: Any) -> Iterator[Row]:
    """What each rank of a group has done, for `/metrics`."""
    for rank, count in enumerate(device.group.counts):
        yield Row("rank_steps", {"rank": str(rank)}, count.num_steps)
        yield Row("rank_wait_seconds", {"rank": str(rank)}, count.wait_s)
    for rank, counters in enumerate(transfer.counters_by_rank()):
        yield Row("rank_kv_transfer_bytes", {"rank": str(rank)}, counters.num_posted_bytes)
        yield Row("rank_kv_transfer_landed_bytes", {"rank": str(rank)}, counters.num_landed_bytes)


async def serve_executor(life: Lifecycle, settings: Settings) -> None:
    """Serve until asked to stop, then drain."""
    config = settings.knobs
    if not isinstance(config, ExecutorConfig):
        raise InvariantViolated("an executor needs an executor's knobs")
    ring = KeyRing(Path(settings.link.keys), settings.service.name)
    cores = parse_cores(settings.device.cores)
    lanes = lane_cores(settings.role, config, settings.device, cores)
    os.sched_setaffinity(0, cores)
    configure_transport_environment(is_local(settings.link.listen))
    with ThreadPoolExecutor(1) as beside:
        loading = beside.submit(load_masks, settings, life.log)
        device, ranks = make_device(life, settings, cores, config.piece_bytes)
        masks = loading.result()
    if masks is not None:
        device.use_grammars(masks)
    if len(lanes) > 1:
        device.use_lanes(lanes)
    process = Process(
        life,
        settings,
        ring,
        lambda own: ExecutorCore(own, device.layout, config, ring.hash_key),
        layout=device.layout,
        capacity=measure(device, config, settings.device),
    )
    if isinstance(process.machine, ExecutorCore):
        cohorts, histograms = process.machine.cohorts, process.machine.state.histograms
        process.metrics.add_rows(lambda: decode_rows(cohorts))
        process.metrics.add_distributions(lambda: [Distribution(name, {}, h) for name, h in histograms.items()])
    engine = Engine(process, device, masks, ranks, len(lanes), config.piece_bytes)
    engine.start()
    process.dial_scheduler()
    await process.serve(engine.sickness, {"steps": engine.steps_page})
    await life.stop_requested()
    await drain(process, engine)


async def drain(process: Process, engine: Engine) -> None:
    """Finish what runs, within the drain time; end without freeing anything that may still be touched."""
    process.driver.post(ev.Drain())
    await process.quiescence()
    process.shut()
    proven = await asyncio.get_running_loop().run_in_executor(None, engine.stop)
    if not proven:
        process.life.log.error("exit", code=ev.EXIT_UNPROVEN, detail="a launched step did not end")
        process.life.exit_now(ev.EXIT_UNPROVEN)


def load_masks(settings: Settings, log: Log) -> GrammarMasks | None:
    """What constrains answers to grammars; None, and said so, if the model's tokenizer does not allow it."""
    if not settings.model.folder:
        return None
    try:
        vocabulary = load_vocabulary(Path(settings.model.folder))
    except Incompatible as error:
        log.warn("no grammars", detail=str(error))
        return None
    return GrammarMasks(Matchers(vocabulary, on_failure=lambda why: log.warn("a grammar could not go on", why=why)))


def make_device(
    life: Lifecycle, settings: Settings, cores: tuple[int, ...], piece_bytes: int
) -> tuple[Device[Any], RankProcesses | None]:
    """Load the model onto the device, or onto a group of ranks. Blocks for as long as that takes; nothing is served
    before. A group that is not complete ends the process: another start may go well."""
    told = settings.device
    folder = Path(settings.model.folder) if settings.model.folder else None
    try:
        if told.num_ranks > 1:
            return make_group(settings, cores, piece_bytes)
        return _make_device(told, folder, len(cores)), None
    except MemoryError as error:
        raise SettingsInvalid(f"device.num_blocks or device.kv_bytes: more than there is memory: {error}") from error
    except GroupIncomplete as error:
        life.log.error("cannot go on", kind=type(error).__name__, detail=str(error))
        life.exit_now(EXIT_GROUP_INCOMPLETE)


def make_group(settings: Settings, cores: tuple[int, ...], piece_bytes: int) -> tuple[Device[Any], RankProcesses]:
    """This process is the first rank, on its part of the cores."""
    service = settings.service
    first, *others = plan_ranks(
        settings.device,
        settings.model.folder,
        service.name,
        service.epoch,
        cores,
        moves_kv=settings.role is not Role.UNIFIED,
        piece_bytes=piece_bytes,
    )
    os.sched_setaffinity(0, first.cores)
    return start_group(first, others)


def _make_device(told: DeviceSettings, folder: Path | None, num_threads: int) -> Device[Any]:
    if told.kind == "fake":
        return make_fake(told, folder)
    memory = {"num_blocks": told.num_blocks} if told.num_blocks else {"kv_bytes": told.kv_bytes}
    return load_device(
        told.kind,  # type: ignore[arg-type]
        folder,
        block_size=told.block_size,
        num_threads=num_threads,
        dtype=told.dtype,
        **memory,
    )


def make_fake(told: DeviceSettings, folder: Path | None) -> FakeDevice:
    """A device that computes nothing, for as long as its settings say; the model folder gives it a vocabulary."""
    info = read_model_info(folder) if folder is not None else None
    device = FakeDevice(
        told.num_blocks or told.kv_bytes // fake_layout(told.block_size).block_bytes,
        told.block_size,
        vocab_size=FAKE_VOCAB_SIZE if info is None else info.vocab_size,
        end_one_in=told.end_one_in,
        checks_memory=told.checks_memory,
        step_time_s=told.step_time_s,
        token_time_s=told.token_time_s,
    )
    if info is not None:
        device.layout = msgspec.structs.replace(device.layout, tokenizer_fingerprint=info.tokenizer_fingerprint)
    return device


def piece_faults(told: DeviceSettings) -> Callable[[Piece], str | None] | None:
    """What shall go wrong with which write of KV; None: nothing."""
    if not told.fail_one_piece_in and not told.piece_delay_s:
        return None

    def fault(piece: Piece) -> str | None:
        if told.fail_one_piece_in and piece.piece_id % told.fail_one_piece_in == 0:
            return "fail"
        return f"delay:{told.piece_delay_s}" if told.piece_delay_s else None

    return fault


def too_few_blocks(num_blocks: int, block_bytes: int, told: DeviceSettings) -> str:
    key = f"device.num_blocks = {told.num_blocks}" if told.num_blocks else f"device.kv_bytes = {told.kv_bytes}"
    return f"{key}: {num_blocks} KV blocks of {block_bytes} bytes, at least {NUM_SPARE_BLOCKS + 1} are needed"


def measure(device: Device[Any], config: ExecutorConfig, told: DeviceSettings) -> Capacity:
    """What this executor can hold, as it tells others."""
    num_blocks = device.num_blocks - NUM_SPARE_BLOCKS
    if num_blocks < 1:
        raise SettingsInvalid(too_few_blocks(device.num_blocks, device.layout.block_bytes, told))
    bounds = [device.max_model_len, num_blocks * device.layout.block_size]
    if told.max_model_len:
        bounds.append(told.max_model_len)
    return Capacity(
        num_blocks=num_blocks,
        num_slots=config.num_slots,
        block_size=device.layout.block_size,
        token_budget=config.token_budget,
        max_model_len=min(bounds),
        growth_reserve=config.growth_reserve,
        num_spare_blocks=NUM_SPARE_BLOCKS,
        block_bytes=device.layout.block_bytes,
        checkpoint_blocks=device.layout.checkpoint_blocks,
    )


def main(role: Role, arguments: list[str] | None = None) -> int:
    return run_role(role, serve_executor, arguments)
