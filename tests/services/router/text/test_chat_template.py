"""Chat templates as models ship them, rendered and tokenized."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from baton.core.errors import Incompatible
from baton.services.model.folder import write_model_info
from baton.services.model.tiny import write_tiny
from baton.services.router.api.ask import ChatPrompt
from baton.services.router.api.bodies import ChatBody
from baton.services.router.api.chat_ask import chat_ask
from baton.services.router.config import HttpConfig
from baton.services.router.errors import ApiError
from baton.services.router.text.chat_template import ChatTemplate
from baton.services.router.text.control_tokens import ControlTokens
from baton.services.router.text.model_folder import load_router_model
from tests.services.router.rig import IM_START, LIMITS, Rig, prompt_ids

MESSAGES = [{"role": "user", "content": "  hi  "}, {"role": "assistant", "content": "yes"}]


def render(source: str, **variables: str) -> str:
    return ChatTemplate(source, variables).render(ChatPrompt(MESSAGES), 10_000)


def test_usual_constructs_are_understood() -> None:
    assert render("{{ bos_token }}{{ messages[0]['content'] | trim }}", bos_token="<s>") == "<s>hi"
    assert render("{% for m in messages %}{% if loop.first %}{% continue %}{% endif %}{{ m.role }}{% endfor %}") == (
        "assistant"
    )
    assert render("{% generation %}{{ messages[1].content }}{% endgeneration %}") == "yes"
    assert render("{{ messages[1] | tojson }}") == json.dumps(MESSAGES[1])
    assert render("{% if tools is not none %}tools{% endif %}{% if add_generation_prompt %}go{% endif %}") == "go"
    assert len(render("{{ strftime_now('%Y') }}")) == 4
    assert render("{% if true %}\n  x\n{% endif %}\ny") == "  x\ny"


def test_a_template_that_refuses_the_messages_says_why() -> None:
    with pytest.raises(ApiError, match="roles must alternate") as refusal:
        render("{{ raise_exception('roles must alternate') }}")
    assert (refusal.value.status, refusal.value.param) == (400, "messages")


def test_a_broken_template_is_found_at_the_start() -> None:
    with pytest.raises(Incompatible):
        ChatTemplate("{% for %}", {})


def test_hidden_control_tokens_come_back_in_their_places() -> None:
    control = ControlTokens(("<|a|>", "<|a|>b"))
    mark = control.new_mark()
    text = "x<|a|>b<|a|>y"
    hidden = control.hide(text, mark)
    assert "<|a|>" not in hidden
    assert control.split("<|a|>" + hidden, mark) == [
        ("<|a|>x", False), ("<|a|>b", True), ("<|a|>", True), ("y", False)
    ]  # fmt: skip
    assert control.split(hidden, control.new_mark()) == [(hidden, False)]


def test_a_hidden_control_token_that_a_template_cut_off_stays_text() -> None:
    control = ControlTokens(("<|a|>", "<|b|>"))
    mark = control.new_mark()
    cut, whole = control.hide("x<|a|>", mark)[:-1], control.hide("<|b|>", mark)
    assert control.split(f"{cut} y {whole}{whole}z", mark) == [
        (f"{cut} y ", False), ("<|b|>", True), ("<|b|>", True), ("z", False)
    ]  # fmt: skip


def test_a_tokenizer_without_control_tokens_hides_nothing() -> None:
    assert ControlTokens(()).hide("<|a|>", "m") == "<|a|>"


async def test_a_chat_is_tokenized_as_the_tokenizer_reads_the_rendered_text(rig: Rig) -> None:
    await rig.chat(messages=[{"role": "user", "content": "naïve 😀"}])
    ids = prompt_ids(rig.machine.events[0])
    assert ids == [IM_START, *"user\nnaïve 😀".encode(), 259, 10, IM_START, *b"assistant\n"]


def test_a_model_without_a_template_refuses_chats(tmp_path: Path) -> None:
    write_tiny(tmp_path)
    (tmp_path / "chat_template.jinja").unlink()
    write_model_info(tmp_path, "bare", "float64")
    body = msgspec.convert({"model": "bare", "messages": [{"role": "user", "content": "x"}]}, ChatBody)
    ask = chat_ask(body, 260, HttpConfig(served_names=("bare",)))
    with pytest.raises(ApiError, match="no chat template"):
        load_router_model(tmp_path, bytes(16)).encoder.encode(ask, LIMITS)


def test_a_folder_without_a_tokenizer_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Incompatible):
        load_router_model(tmp_path, bytes(16))
