"""The router as a process: its machine and, beside it, the HTTP API."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from baton.core.config import RouterConfig
from baton.core.errors import InvariantViolated
from baton.core.events import Received, each_of
from baton.core.ids import Peer, Role
from baton.core.router.events import Deliver, DeliverTokens, End
from baton.core.router.machine import RouterCore
from baton.core.router.streams import wire_id
from baton.core.wire.messages import Roster
from baton.services.grammar.checker import Checker
from baton.services.router.config import Limits
from baton.services.router.front_end import FrontEnd
from baton.services.router.http.app import create_app
from baton.services.router.http.auth import load_api_keys
from baton.services.router.http.pages import Providers
from baton.services.router.http.routes import prepare
from baton.services.router.http.server import HttpServer
from baton.services.router.text.model_folder import load_router_model
from baton.services.runtime.admin import turn_works
from baton.services.runtime.entry import run_role
from baton.services.runtime.lifecycle import Lifecycle
from baton.services.runtime.process import Process
from baton.services.runtime.settings import HttpSettings, Settings
from baton.services.transport.keys import KeyRing


class RosterWatch:
    """The router's machine; tells the HTTP side which executors there are, as the scheduler last said."""

    def __init__(self, machine: RouterCore, tell: Callable[[tuple[Peer, ...]], None]) -> None:
        self.next_wake = machine.next_wake
        self._machine = machine
        self._tell = tell
        self.check_invariants = machine.check_invariants
        self.quiescent = machine.quiescent
        self.gauges = machine.gauges
        self.readiness = machine.readiness
        self.unfinished = machine.unfinished

    def handle(self, event: Any, now: float) -> Any:
        """See `baton.core.events.Machine`."""
        for happened in each_of(event):
            if type(happened) is Received and type(happened.message) is Roster:
                self._tell(happened.message.executors)
        commands = self._machine.handle(event, now)
        self.next_wake = self._machine.next_wake
        return commands


def limits_of(executors: tuple[Peer, ...]) -> Limits | None:
    """What the largest of them can take; None while nobody decodes. All have one layout: the scheduler sees to it."""
    decoding = [peer for peer in executors if peer.role.runs_decode and peer.capacity is not None]
    if not decoding:
        return None
    capacities = [peer.capacity for peer in decoding if peer.capacity is not None]
    longest = max(capacity.max_model_len for capacity in capacities)
    prefilling = [peer.capacity for peer in executors if peer.role is not Role.DECODE and peer.capacity is not None]
    longest_prompt = max((capacity.max_model_len for capacity in prefilling or capacities), default=longest)
    return Limits(longest, min(longest - 1, longest_prompt), decoding[0].layout_fingerprint, capacities[0].block_size)


def http_config(told: HttpSettings, model: Path) -> HttpSettings:
    """The served name is the folder's, if none was given."""
    return told if told.served_names else msgspec.structs.replace(told, served_names=(model.name,))


class Front:
    """The HTTP API of one router: in by `driver.post`, out by `front.perform`."""

    def __init__(self, life: Lifecycle, settings: Settings) -> None:
        knobs = settings.knobs
        if not isinstance(knobs, RouterConfig):
            raise InvariantViolated("a router needs a router's knobs")
        folder = Path(settings.model.folder)
        ring = KeyRing(Path(settings.link.keys), settings.service.name)
        config = http_config(settings.http, folder)
        api_keys = load_api_keys(config.api_keys_file, config.api_keys, ring.hash_key, config.max_priority)
        self.process = Process(life, settings, ring, lambda own: RosterWatch(RouterCore(own, knobs), self._on_roster))
        model, own = load_router_model(folder, ring.hash_key, config.tool_format), self.process.own
        self._grammars = Checker(folder, max_bytes=config.max_built_grammar_bytes)
        self.front = FrontEnd(
            self.process.driver.post,
            model,
            config,
            self._grammars.check,
            wire_id_of=lambda number: wire_id(own, number),
        )
        self._executors: tuple[Peer, ...] = ()
        self.process.metrics.add_gauges(self._gauges)
        self.process.driver.perform(Deliver, self.front.perform)
        self.process.driver.perform(DeliverTokens, self.front.perform)
        self.process.driver.perform(End, self.front.perform)
        self.app = create_app(self.front, config, self._providers(), api_keys)
        self.server = HttpServer(self.app, self.front, config)

    async def start(self) -> None:
        told = self.process.settings.http
        self.process.dial_scheduler()
        await prepare(self.app)
        port = await self.server.start(told.host, told.port)
        admin_port = await self.process.open_admin(self._providers().readiness)
        self.process.announce(admin_port, port, tokenizer=self.front.model.encoder.library)

    async def stop(self) -> None:
        """Take nothing new and end every answer; then wait for what the machine still has to tell others."""
        await self.server.stop()
        await self.process.quiescence()
        self.front.close()
        self._grammars.close()
        self.process.shut()

    def _gauges(self) -> dict[str, float]:
        roles = [peer.role for peer in self._executors]
        executing = (Role.PREFILL, Role.DECODE, Role.UNIFIED)
        counts = {f"executors_{role.name.lower()}": float(roles.count(role)) for role in executing}
        return {"output_tokens_total": self.front.num_output_tokens, **counts}

    def _on_roster(self, executors: tuple[Peer, ...]) -> None:
        self._executors = executors
        self.front.limits = limits_of(executors) or self.front.limits

    def _providers(self) -> Providers:
        process = self.process

        def readiness() -> str:
            if self.front.is_stopping:
                return "shutting down"
            return process.machine.readiness() or ("" if self.front.limits else "no executor is known")

        async def health() -> bool:
            return await turn_works(process.driver)

        return Providers(health, readiness, process.metrics.text)


async def serve_router(life: Lifecycle, settings: Settings) -> None:
    """Serve until the lifecycle asks to stop."""
    front = Front(life, settings)
    await front.start()
    await life.stop_requested()
    await front.stop()


def main(arguments: list[str] | None = None) -> int:
    return run_role(Role.ROUTER, serve_router, arguments)
