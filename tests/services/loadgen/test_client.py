"""The client against a server of raw bytes: what ends how, in which class, over how many connections."""

from __future__ import annotations

import asyncio
import itertools
import shutil
import socket
import ssl
import subprocess
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from baton.core.metrics.facts import Failure, RequestFacts
from baton.services.loadgen.client import Client, request_head
from baton.services.loadgen.client_exchange import Exchange
from baton.services.loadgen.plan import NEVER, PlannedRequest
from baton.services.loadgen.target import Target, TargetInvalid
from tests.support.loops import run_on_uvloop
from tests.support.stub_server import (
    DONE,
    LAST_CHUNK,
    STREAM_HEAD,
    Asked,
    Close,
    Reset,
    Step,
    StubServer,
    Until,
    chat_event,
    chunked,
    event,
    good_stream,
    streamed,
    whole,
)

GOOD = streamed(good_stream())


class Sent:
    """A client, and the facts of what it sent."""

    def __init__(self, target: Target) -> None:
        loop = asyncio.get_running_loop()
        self.ended: asyncio.Queue[RequestFacts] = asyncio.Queue()
        self.client = Client(target, loop.time, lambda exchange: self.ended.put_nowait(exchange.facts()))
        self._target = target
        self._numbers = itertools.count()

    def send(self, body: bytes = b"{}", cancel_after_s: float = NEVER) -> None:
        planned = PlannedRequest(index=next(self._numbers), max_tokens=2, cancel_after_s=cancel_after_s)
        exchange = Exchange(planned, 0.0, self._target.endpoint, self._target.is_streamed)
        self.client.send(exchange, body)

    async def one(self, cancel_after_s: float = NEVER) -> RequestFacts:
        self.send(cancel_after_s=cancel_after_s)
        return await self.ended.get()


@asynccontextmanager
async def sending(server: StubServer, **fields: Any) -> AsyncIterator[Sent]:
    sent = Sent(Target(url=server.url, model="m", **fields))
    await sent.client.start()
    try:
        yield sent
    finally:
        await sent.client.close()
        assert sent.client.num_open == 0
        assert sent.client.num_connections == 0
        assert sent.ended.empty()


def on_both_loops(story: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(story())
    run_on_uvloop(story())


def test_a_good_answer_has_its_times_in_order_and_its_connection_is_used_again() -> None:
    async def story() -> None:
        async with StubServer(lambda asked: GOOD) as server, sending(server, api_key="key") as sent:
            for number in range(3):
                facts = await sent.one()
                assert (facts.index, facts.failure, facts.status, facts.finish_reason) == (number, None, 200, "stop")
                times = [facts.dispatched_s, facts.sent_s, facts.headers_s, facts.chunks[0].time_s, facts.done_s]
                assert None not in times
                assert times == sorted(times)  # type: ignore[type-var]
            assert server.num_connections == 1
            assert server.asked[0].path == "/v1/chat/completions"
            assert server.asked[0].headers["authorization"] == "Bearer key"
            assert server.asked[0].headers["accept-encoding"] == "identity"

    on_both_loops(story)


FAULTS: list[tuple[str, list[Step], Failure]] = [
    ("no end marker", streamed(good_stream()[:-1]), Failure.NO_END),
    ("error event", streamed([chat_event("a"), event({"error": {"message": "x"}}), DONE]), Failure.ERROR_EVENT),
    ("error with 200", [whole("200 OK", {"error": {"message": "x"}})], Failure.ERROR_EVENT),
    ("empty 200", [whole("200 OK", b"")], Failure.EMPTY),
    ("refused", [whole("503 Busy", {"error": "x"}, headers="Retry-After: 0\r\n")], Failure.REFUSED),
    ("reset", [STREAM_HEAD, chunked(chat_event("a")), Reset()], Failure.LOST),
    ("closed", [STREAM_HEAD, chunked(chat_event("a")), Close()], Failure.LOST),
    ("closed before an answer", [Close()], Failure.LOST),
    ("not HTTP", [b"hello\r\n"], Failure.MALFORMED),
]


@pytest.mark.parametrize(("steps", "failure"), [fault[1:] for fault in FAULTS], ids=[fault[0] for fault in FAULTS])
async def test_LDG_01_each_fault_is_its_class_is_not_tried_again_and_harms_no_other(
    steps: list[Step], failure: Failure
) -> None:
    answers = itertools.cycle([steps, GOOD, GOOD, GOOD, GOOD])
    async with StubServer(lambda asked: next(answers)) as server, sending(server) as sent:
        failures = [(await sent.one()).failure for _ in range(10)]
        assert failures == [failure, None, None, None, None] * 2
        assert len(server.asked) == 10


async def test_LDG_01_a_server_that_says_nothing_more_is_stalled() -> None:
    never = asyncio.Event()
    for steps in ([Until(never)], [STREAM_HEAD, chunked(chat_event("a")), Until(never)]):

        def answer(asked: Asked, steps: Iterable[Step] = steps) -> Iterable[Step]:
            return steps

        async with StubServer(answer) as server, sending(server, stall_timeout_s=0.05) as sent:
            facts = await sent.one()
            assert facts.failure is Failure.STALLED
            assert facts.detail == "nothing came for 0.05 s"


async def test_an_answer_that_goes_on_for_too_long_is_timed_out() -> None:
    def for_ever(asked: Asked) -> Iterable[Step]:
        yield STREAM_HEAD
        while True:
            yield chunked(chat_event("a"))

    async with StubServer(for_ever) as server, sending(server, total_timeout_s=0.05) as sent:
        facts = await sent.one()
        assert (facts.failure, facts.detail) == (Failure.TIMEOUT, "not over after 0.05 s")
        assert facts.chunks


async def test_a_planned_cancellation_closes_the_connection_and_is_no_failure() -> None:
    never = asyncio.Event()
    steps: list[Step] = [STREAM_HEAD, chunked(chat_event("a")), Until(never)]
    async with StubServer(lambda asked: steps) as server, sending(server) as sent:
        facts = await sent.one(cancel_after_s=0.02)
        assert (facts.is_cancelled, facts.failure, facts.detail) == (True, None, "as planned")
        assert facts.sent_s is not None
        assert facts.done_s is not None
        assert facts.done_s >= facts.sent_s + 0.02


async def test_a_cancellation_that_comes_after_the_end_changes_nothing() -> None:
    async with StubServer(lambda asked: GOOD) as server, sending(server) as sent:
        facts = await sent.one(cancel_after_s=60.0)
        assert (facts.is_cancelled, facts.failure) == (False, None)


async def test_a_server_that_is_not_there_is_no_connection() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # and nobody listens
        async with StubServer(lambda asked: GOOD) as server:
            server.port = taken.getsockname()[1]
            async with sending(server) as sent:
                facts = await sent.one()
    assert facts.failure is Failure.CONNECT
    assert facts.detail == "Connection refused"
    assert facts.sent_s is None


async def test_LDG_04_three_hundred_requests_in_flight_are_three_hundred_at_the_server() -> None:
    async with StubServer(lambda asked: [Until(all_there), *GOOD]) as server, sending(server) as sent:
        all_there = asyncio.Event()
        for _ in range(300):
            sent.send()
        async with server.opened:
            await server.opened.wait_for(lambda: server.num_open == 300)
        assert sent.client.num_open == 300
        all_there.set()
        facts = [await sent.ended.get() for _ in range(300)]
        assert {fact.failure for fact in facts} == {None}
        assert server.most_open == 300
        assert server.num_connections == 300
        for _ in range(300):
            sent.send()
        assert {(await sent.ended.get()).failure for _ in range(300)} == {None}
        assert server.num_connections == 300


async def test_LDG_04_what_is_stopped_early_was_completed_or_cancelled() -> None:
    never = asyncio.Event()

    def answer(asked: Asked) -> Iterable[Step]:
        return GOOD if len(server.asked) % 2 else [STREAM_HEAD, chunked(chat_event("a")), Until(never)]

    async with StubServer(answer) as server, sending(server) as sent:
        for _ in range(20):
            sent.send()
        done = [await sent.ended.get() for _ in range(10)]
        sent.client.cut_short("stopped")
        cancelled = [await sent.ended.get() for _ in range(10)]
        assert {fact.failure for fact in done} == {None}
        assert all(fact.is_cancelled and fact.detail == "stopped" for fact in cancelled)
        assert sorted(fact.index for fact in (*done, *cancelled)) == list(range(20))


async def test_what_is_still_connecting_is_cancelled_too() -> None:
    async with StubServer(lambda asked: GOOD) as server, sending(server) as sent:
        sent.send()
        sent.client.cut_short("stopped")
        facts = sent.ended.get_nowait()
        assert (facts.is_cancelled, facts.sent_s) == (True, None)


async def test_a_body_that_goes_on_after_the_end_marker_keeps_its_connection_only_once_it_is_over() -> None:
    goes_on = asyncio.Event()
    steps: list[Step] = [STREAM_HEAD, *map(chunked, good_stream()), Until(goes_on), LAST_CHUNK]
    async with StubServer(lambda asked: steps) as server, sending(server) as sent:
        assert (await sent.one()).failure is None
        assert (await sent.one()).failure is None
        assert server.num_connections == 2
        goes_on.set()
        async with server.opened:
            await server.opened.wait_for(lambda: server.num_open == 0)
        while len(sent.client._idle) < 2:
            await asyncio.sleep(0)
        assert (await sent.one()).failure is None
        assert server.num_connections == 2


def test_a_request_is_sent_when_its_last_byte_was_taken_by_the_socket() -> None:
    async def story() -> None:
        reads = asyncio.Event()

        async def slow(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            await reads.wait()
            while await reader.read(1 << 20):
                pass
            writer.close()
            closed.set()

        closed = asyncio.Event()
        server = await asyncio.start_server(slow, "127.0.0.1", 0, limit=1 << 16)
        sent = Sent(Target(url=f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", model="m"))
        await sent.client.start()
        exchange = Exchange(PlannedRequest(index=0, max_tokens=1), 0.0, sent._target.endpoint, True)
        sent.client.send(exchange, b"x" * (32 << 20))
        while sent.client.num_connections == 0:
            await asyncio.sleep(0)
        assert exchange.sent_s is None
        reads.set()
        while exchange.sent_s is None:
            await asyncio.sleep(0.001)
        await sent.client.close()
        assert (await sent.ended.get()).is_cancelled
        await closed.wait()
        server.close()
        await server.wait_closed()

    on_both_loops(story)


def test_connections_send_small_requests_at_once() -> None:
    async def story() -> None:
        async with StubServer(lambda asked: GOOD) as server, sending(server) as sent:
            await sent.one()
            [connection] = sent.client._connections
            assert connection._transport is not None
            raw = connection._transport.get_extra_info("socket")
            assert raw.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)

    on_both_loops(story)


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl makes the certificate")
async def test_a_server_behind_tls_is_asked_only_if_its_certificate_is_good_or_not_looked_at(tmp_path: Path) -> None:
    made = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"]
    made += ["-subj", "/CN=127.0.0.1", "-keyout", str(tmp_path / "key.pem"), "-out", str(tmp_path / "cert.pem")]
    subprocess.run(made, check=True, capture_output=True)
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(tmp_path / "cert.pem", tmp_path / "key.pem")
    async with StubServer(lambda asked: GOOD, tls) as server:
        async with sending(server, verifies_certificate=False) as sent:
            for _ in range(2):
                facts = await sent.one()
                assert (facts.failure, len(facts.chunks)) == (None, 2)
                assert facts.sent_s is not None
        async with sending(server) as sent:
            facts = await sent.one()
            assert (facts.failure, facts.sent_s) == (Failure.CONNECT, None)
            assert "certificate" in facts.detail


def test_headers_that_cannot_be_sent_are_refused() -> None:
    for headers in ({"X": "a\r\nY: b"}, {"X Y": "a"}, {"X:": "a"}, {"": "a"}, {"X": "é"}):
        with pytest.raises(TargetInvalid):
            request_head(Target(url="http://h", model="m", extra_headers=headers))


def test_the_head_says_what_the_target_says() -> None:
    target = Target(url="https://h:8443/proxy/v1/", model="m", is_streamed=False, extra_headers={"X-Tenant": "a"})
    head = request_head(target).decode()
    assert head.startswith("POST /proxy/v1/chat/completions HTTP/1.1\r\nHost: h:8443\r\nAccept: application/json\r\n")
    assert "X-Tenant: a\r\n" in head
    assert "Authorization" not in head
    assert head.endswith("\r\nContent-Length: ")
