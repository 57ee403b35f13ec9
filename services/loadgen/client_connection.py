"""One connection of the client: its bytes are stamped when they are read, then handed to the request it carries."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol, cast

from baton.core.metrics.facts import Failure
from baton.services.loadgen.client_exchange import Exchange
from baton.services.loadgen.plan import NEVER

Clock = Callable[[], float]  #: seconds since the run began
DRAIN_S = 1.0  #: what a body may take to end after its end marker, before its connection is closed


class Owner(Protocol):
    """Whoever has the connections."""

    def exchange_ended(self, exchange: Exchange) -> None: ...

    def connection_idle(self, connection: Connection) -> None: ...

    def connection_gone(self, connection: Connection) -> None: ...


class Connection(asyncio.Protocol):
    """Carries one request at a time. One timer, armed again only when it fires, watches all limits of the request."""

    def __init__(self, owner: Owner, clock: Clock, stall_s: float, total_s: float) -> None:
        self.idle_since_s = 0.0
        self._owner = owner
        self._clock = clock
        self._stall_s = stall_s
        self._total_s = total_s
        self._transport: asyncio.Transport | None = None
        self._exchange: Exchange | None = None
        self._is_told = True  #: its owner knows that the exchange is over
        self._begun_s = 0.0
        self._timer: asyncio.TimerHandle | None = None

    @property
    def is_usable(self) -> bool:
        return self._exchange is None and self._transport is not None and not self._transport.is_closing()

    def send(self, exchange: Exchange, request: bytes) -> None:
        """Begin to carry a request; the connection must be usable."""
        assert self._transport is not None
        self._exchange = exchange
        self._is_told = False
        self._begun_s = self._clock()
        self._transport.write(request)
        # With a bound of zero the transport pauses whoever writes as long as a byte is left: that is when it was sent.
        if exchange.sent_s is None and not self._transport.get_write_buffer_size():
            exchange.sent_s = self._clock()
        self._arm()

    def cut_short(self, detail: str) -> None:
        if self._exchange is not None:
            self._exchange.cancel(detail, self._clock(), is_cut_short=True)
            self._settle(self._exchange)

    def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=0)

    def resume_writing(self) -> None:
        if self._exchange is not None and self._exchange.sent_s is None:
            self._exchange.sent_s = self._clock()
            self._arm()

    def data_received(self, data: bytes) -> None:
        now = self._clock()
        exchange = self._exchange
        if exchange is None:
            self.close()  # nobody asked
            return
        exchange.received(data, now)
        if exchange.done_s is not None:
            self._settle(exchange)

    def connection_lost(self, error: Exception | None) -> None:
        exchange, self._exchange = self._exchange, None
        self._disarm()
        if exchange is not None:
            exchange.closed(f"{error}" if error is not None else "", self._clock())
            self._tell(exchange)
        self._owner.connection_gone(self)

    # the end of a request

    def _settle(self, exchange: Exchange) -> None:
        """The request is over: the connection is free again, closed, or waits for the rest of a body."""
        head = exchange.response.head
        if exchange.response.is_over and head is not None and head.keeps_alive:
            self._disarm()
            self._exchange = None
            self.idle_since_s = self._clock()
            self._owner.connection_idle(self)
        elif not self._is_told:
            self._disarm()
            if exchange.is_success and not exchange.response.can_end_here:
                self._timer = asyncio.get_running_loop().call_later(DRAIN_S, self.close)
            else:
                self.close()
        self._tell(exchange)

    def _tell(self, exchange: Exchange) -> None:
        if not self._is_told:
            self._is_told = True
            self._owner.exchange_ended(exchange)

    # limits

    def _arm(self) -> None:
        exchange = self._exchange
        if exchange is not None and not exchange.is_over:
            self._disarm()
            delay_s = max(0.0, self._deadline_s(exchange) - self._clock())
            self._timer = asyncio.get_running_loop().call_later(delay_s, self._check_limits)

    def _disarm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _deadline_s(self, exchange: Exchange) -> float:
        """When the first of the limits is reached, if nothing comes until then."""
        heard_s = self._begun_s if exchange.heard_s is None else exchange.heard_s
        deadline_s = min(heard_s + self._stall_s, self._begun_s + self._total_s)
        cancel_after_s = exchange.planned.cancel_after_s
        if cancel_after_s != NEVER and exchange.sent_s is not None:
            return min(deadline_s, exchange.sent_s + cancel_after_s)
        return deadline_s

    def _check_limits(self) -> None:
        self._timer = None
        exchange = self._exchange
        if exchange is None or exchange.is_over:
            return
        now = self._clock()
        if now < self._deadline_s(exchange):
            self._arm()
            return
        cancel_after_s = exchange.planned.cancel_after_s
        if cancel_after_s != NEVER and exchange.sent_s is not None and now >= exchange.sent_s + cancel_after_s:
            exchange.cancel("as planned", now)
        elif now >= self._begun_s + self._total_s:
            exchange.fail(Failure.TIMEOUT, f"not over after {self._total_s:g} s", now)
        else:
            exchange.fail(Failure.STALLED, f"nothing came for {self._stall_s:g} s", now)
        self._settle(exchange)
