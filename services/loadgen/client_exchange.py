"""One request and its answer: fed with bytes and the time at which they were read, it knows the facts. No sockets, no
clock.
"""

from __future__ import annotations

from baton.core.metrics.facts import UNKNOWN, Chunk, Failure, RequestFacts
from baton.services.loadgen.answers import EVENT_READERS, WHOLE_READERS, AnswerMalformed, Said, one_line, read_error
from baton.services.loadgen.client_response import Head, HttpMalformed, ResponseParser
from baton.services.loadgen.plan import PlannedRequest
from baton.services.loadgen.sse import Event, EventParser, SseMalformed
from baton.services.loadgen.target import Endpoint

OK = 200
REFUSALS = (429, 503)
MAX_WHOLE_BYTES = 64 << 20  #: of an answer that is not streamed
MAX_ERROR_BYTES = 64 << 10  #: of an error's body that are looked at


class Exchange:
    """Ends once: by a whole answer, a failure or a cancellation. What comes afterwards changes no fact."""

    def __init__(
        self, planned: PlannedRequest, scheduled_s: float, endpoint: Endpoint, is_streamed: bool, worker: int = 0
    ) -> None:
        self.planned = planned
        self.scheduled_s = scheduled_s
        self.held_until_s: float | None = None  #: whoever sends it had no place for it before
        self.dispatched_s: float | None = None
        self.sent_s: float | None = None
        self.heard_s: float | None = None  #: bytes came last
        self.done_s: float | None = None
        self.response = ResponseParser()
        self.texts: list[str] = []  #: the answer's own text
        self._read_event = EVENT_READERS[endpoint]
        self._read_whole = WHOLE_READERS[endpoint]
        self._is_streamed = is_streamed
        self._worker = worker
        self._events: EventParser | None = None  #: of a stream
        self._whole: list[bytes] = []  #: of any other body
        self._num_whole_bytes = 0
        self._headers_s: float | None = None
        self._first_event_s: float | None = None
        self._chunks: list[Chunk] = []
        self._num_told_tokens = UNKNOWN  #: of the chunks so far, where the server says it with each
        self._num_input_tokens = UNKNOWN
        self._num_cached_tokens = UNKNOWN
        self._num_output_tokens = UNKNOWN
        self._finish_reason = ""
        self._server_id = ""
        self._is_cancelled = self._is_cut_short = False
        self._failure: Failure | None = None
        self._detail = ""

    @property
    def is_over(self) -> bool:
        return self.done_s is not None

    @property
    def is_success(self) -> bool:
        return self.is_over and self._failure is None and not self._is_cancelled

    @property
    def has_answer(self) -> bool:
        """Whether a history may repeat what came: all of it, or what came before this side ended it."""
        return self.is_over and self._failure is None

    def fail(self, failure: Failure, detail: str, now: float) -> None:
        if not self.is_over:
            self._failure, self._detail, self.done_s = failure, one_line(detail), now

    def cancel(self, detail: str, now: float, *, is_cut_short: bool = False) -> None:
        """This side ends it; `is_cut_short`: since the run ends, not as planned."""
        if not self.is_over:
            self._is_cancelled, self._is_cut_short = True, is_cut_short
            self._detail, self.done_s = detail, now

    def received(self, data: bytes, now: float) -> None:
        """Bytes of the connection, read at `now`."""
        self.heard_s = now
        try:
            body = self.response.feed(data)
            if self.done_s is not None:
                return
            if self._headers_s is None and self.response.head is not None:
                self._begin_answer(self.response.head, now)
            if body:
                self._take_body(body, now)
            if self.response.is_over:
                self._end_body(now)
        except (HttpMalformed, SseMalformed, AnswerMalformed) as error:
            self.fail(Failure.MALFORMED, str(error), now)

    def closed(self, error: str, now: float) -> None:
        """The connection ended; `error`: why, if not in order."""
        if self.is_over:
            return
        if self.response.head is None:
            self.fail(Failure.LOST, f"before an answer came: {error or 'the server closed the connection'}", now)
        elif error or not self.response.can_end_here:
            self.fail(Failure.LOST, error or "the server closed the connection in the middle of the answer", now)
        else:
            self._end_body(now)

    def facts(self) -> RequestFacts:
        planned = self.planned
        return RequestFacts(
            index=planned.index,
            phase=planned.phase,
            session=planned.session,
            turn=planned.turn,
            worker=self._worker,
            wanted_output_tokens=planned.max_tokens,
            scheduled_s=self.scheduled_s,
            is_due_by_plan=planned.is_due_by_plan,
            held_until_s=self.held_until_s,
            dispatched_s=self.dispatched_s,
            sent_s=self.sent_s,
            headers_s=self._headers_s,
            first_event_s=self._first_event_s,
            chunks=tuple(self._chunks),
            is_whole=not self._is_streamed,
            done_s=self.done_s,
            status=self.response.head.status if self.response.head is not None else 0,
            num_input_tokens=self._num_input_tokens,
            num_cached_tokens=self._num_cached_tokens,
            num_output_tokens=self._num_output_tokens,
            finish_reason=self._finish_reason,
            is_cancelled=self._is_cancelled,
            is_cut_short=self._is_cut_short,
            failure=self._failure,
            detail=self._detail,
            server_id=self._server_id,
        )

    def _begin_answer(self, head: Head, now: float) -> None:
        self._headers_s = now
        if head.headers.get("content-encoding", "identity") != "identity":
            self.fail(Failure.MALFORMED, "a packed answer, which nobody asked for", now)
        elif head.status == OK and self._is_streamed and not is_json(head):
            self._events = EventParser()

    def _take_body(self, body: bytes, now: float) -> None:
        if self._events is None:
            self._num_whole_bytes += len(body)
            if self._num_whole_bytes > MAX_WHOLE_BYTES:
                self.fail(Failure.MALFORMED, f"an answer of more than {MAX_WHOLE_BYTES} bytes", now)
            else:
                self._whole.append(body)
            return
        for event in self._events.feed(body):
            self._take_event(event, now)
            if self.done_s is not None:
                return

    def _take_event(self, event: Event, now: float) -> None:
        if self._first_event_s is None:
            self._first_event_s = now
        if event.name == b"error":
            self.fail(Failure.ERROR_EVENT, read_error(event.data), now)
            return
        said = self._read_event(event.data)
        self._take_said(said, now)
        if said.error:
            self.fail(Failure.ERROR_EVENT, said.error, now)
        elif said.is_end:
            self._end_answer(has_end_marker=True, cut="", now=now)

    def _take_said(self, said: Said, now: float) -> None:
        if said.usage is not None:
            self._take_usage(said)
        if said.num_chars:
            self._chunks.append(Chunk(now, said.num_chars, self._tokens_of_chunk(said)))
            if said.text:
                self.texts.append(said.text)
        if said.finish_reason:
            self._finish_reason = said.finish_reason
        if said.server_id:
            self._server_id = said.server_id

    def _take_usage(self, said: Said) -> None:
        usage = said.usage
        assert usage is not None
        details = usage.prompt_tokens_details or usage.input_tokens_details
        self._num_input_tokens = known(usage.prompt_tokens, usage.input_tokens, self._num_input_tokens)
        self._num_output_tokens = known(usage.completion_tokens, usage.output_tokens, self._num_output_tokens)
        if details is not None:
            self._num_cached_tokens = known(details.cached_tokens, None, self._num_cached_tokens)

    def _tokens_of_chunk(self, said: Said) -> int:
        """What the server has counted since the last chunk, if it has said so from the first one on and never less."""
        if not self._chunks and said.usage is not None:
            self._num_told_tokens = 0
        if said.usage is None or self._num_told_tokens == UNKNOWN or self._num_output_tokens == UNKNOWN:
            return UNKNOWN
        num_tokens = self._num_output_tokens - self._num_told_tokens
        self._num_told_tokens = self._num_output_tokens
        return num_tokens if num_tokens >= 0 else UNKNOWN

    def _end_body(self, now: float) -> None:
        """The response is over, and no end marker had come."""
        head = self.response.head
        if self.is_over or head is None:
            return
        if head.status != OK:
            self._end_error(head, now)
        elif self._events is not None:
            cut = "" if self._events.is_between_events else ", in the middle of an event"
            self._end_answer(has_end_marker=False, cut=cut, now=now)
        elif not self._num_whole_bytes:
            self.fail(Failure.EMPTY, "a body without a byte", now)
        else:
            self._end_whole(b"".join(self._whole), now)

    def _end_error(self, head: Head, now: float) -> None:
        said = read_error(b"".join(self._whole)[:MAX_ERROR_BYTES])
        failure = Failure.REFUSED if head.status in REFUSALS else Failure.HTTP_ERROR
        wait = head.headers.get("retry-after")
        self.fail(failure, f"status {head.status}: {said}" + (f" (retry after {wait} s)" if wait else ""), now)

    def _end_whole(self, body: bytes, now: float) -> None:
        said = self._read_whole(body)
        if said.error:
            self.fail(Failure.ERROR_EVENT, said.error, now)
        elif self._is_streamed:
            self.fail(Failure.MALFORMED, "a whole answer where a stream was asked for", now)
        else:
            self._first_event_s = now
            self._take_said(said, now)
            self._end_answer(has_end_marker=True, cut="", now=now)

    def _end_answer(self, has_end_marker: bool, cut: str, now: float) -> None:
        if not self._chunks and self._num_output_tokens <= 0:
            self.fail(Failure.EMPTY, f"nothing was generated{cut}", now)
        elif not self._finish_reason:
            self.fail(Failure.NO_FINISH, f"the answer ended without a finish reason{cut}", now)
        elif not has_end_marker:
            self.fail(Failure.NO_END, f"the stream ended without its end marker{cut}", now)
        else:
            self.done_s = now


def known(first: int | None, second: int | None, otherwise: int) -> int:
    return first if first is not None else second if second is not None else otherwise


def is_json(head: Head) -> bool:
    return head.headers.get("content-type", "").partition(";")[0].strip().lower() == "application/json"
