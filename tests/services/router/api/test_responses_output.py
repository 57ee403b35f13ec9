"""Whatever a model writes, however it comes: a stream's events are in order and add up to the whole answer."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from baton.core.executor.steps import SampledToken, TokenLogprobs
from baton.core.router.events import Deliver, End
from baton.services.router.api.envelope import Context
from baton.services.router.api.responses_ask import responses_ask
from baton.services.router.api.responses_bodies import ResponsesBody
from baton.services.router.api.responses_shape import ResponsesShape
from baton.services.router.config import HttpConfig
from baton.services.router.http.body import decode_body
from baton.services.router.streams import Part, RequestStream
from baton.services.router.text.choice_text import ChoiceText
from baton.services.router.text.model_folder import RouterModel
from baton.services.router.text.tokenize import Prompt
from baton.services.router.tools.detect import ToolFormat
from tests.services.router.api.responses_stream import events_in, lasting, told, typed
from tests.services.router.rig import EOS
from tests.services.router.tools.outputs import CUTS, FRAGMENTS, pieces_of, soups
from tests.services.router.tools.written import broken_outputs

CONFIG = HttpConfig(served_names=("tiny",))
OUTPUTS = st.one_of(
    broken_outputs(), st.sampled_from(sorted(FRAGMENTS)).flatmap(lambda one: st.tuples(st.just(one), soups(one)))
)
TOOLS = b'"tools": [{"type": "function", "name": "f"}, {"type": "function", "name": "g"}]'
SCORES = b'"include": ["message.output_text.logprobs"], "top_logprobs": 1'


class Answering:
    """One request without a machine."""

    def __init__(self, model: RouterModel, tool_format: ToolFormat, fields: list[bytes]) -> None:
        body = decode_body(b'{"model": "tiny", "input": "x", %s}' % b", ".join(fields), ResponsesBody)
        ask = responses_ask(body, 260, CONFIG, tool_format)
        self._part = Part(Prompt(b"\0\0\0\0", 1, b"", b""), [ChoiceText(model.table, (), (EOS,), 0)])
        self._stream = RequestStream({1: self._part})
        self._shape = ResponsesShape(body, Context(ask, self._stream, model.table, "resp_1", 1, "tiny"))

    def deliver(self, tokens: bytes, finish: str = "") -> None:
        ids = [*tokens, EOS] if finish == "stop" else list(tokens)
        sampled = tuple(SampledToken(0, token, TokenLogprobs(-0.5, (token,), (-0.5,))) for token in ids)
        self._stream.deliver(Deliver(1, 0, self._part.choices[0].num_tokens, sampled, finish))

    def end(self) -> None:
        self._stream.end(End(1, None), None)

    def parts(self, max_tokens: int) -> str:
        """Events for all that has come, of so many tokens in each turn."""
        written = ""
        while self._stream.has_more:
            written += self._shape.part(self._stream.take(max_tokens)).decode()
        return written

    def last_part(self) -> str:
        return self._shape.last_part().decode()

    def whole(self) -> dict[str, Any]:
        return decode_body(self._shape.whole(), dict)


@given(
    output=OUTPUTS,
    cuts=CUTS,
    fields=st.sampled_from([[], [TOOLS], [SCORES], [TOOLS, SCORES]]),
    finish=st.sampled_from(["stop", "length"]),
    max_tokens=st.sampled_from([1, 7, 128]),
)
def test_a_stream_of_any_output_adds_up_to_the_whole_answer(
    model: RouterModel,
    output: tuple[ToolFormat, str],
    cuts: list[int],
    fields: list[bytes],
    finish: str,
    max_tokens: int,
) -> None:
    tool_format, text = output
    fields = fields or [b'"store": false']
    streamed, whole = (Answering(model, tool_format, fields) for _ in range(2))
    written = ""
    for piece in pieces_of(text, cuts):
        streamed.deliver(piece.encode())
        written += streamed.parts(max_tokens)
    streamed.deliver(b"", finish)
    streamed.end()
    whole.deliver(text.encode(), finish)
    whole.end()
    written += streamed.parts(max_tokens) + streamed.last_part()
    answer = whole.whole()
    typed(answer)
    assert lasting(told(events_in(written))) == lasting(answer)
    assert answer["status"] == ("incomplete" if finish == "length" else "completed")
    assert answer["output"]
    if TOOLS not in fields:
        (item,) = answer["output"]
        assert item["content"][0]["text"] == text
        if SCORES in fields:
            scored = bytes(byte for score in item["content"][0]["logprobs"] for byte in score["bytes"])
            assert scored.removesuffix(b"<|eos|>") == text.encode()
