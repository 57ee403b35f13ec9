"""The first answer of a fresh `baton up`, through curl and through the official client, and what it moved."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

from baton.core.layout import DTYPE_BYTES
from baton.services.model.fetch import fetch
from baton.services.model.folder import read_model_info
from tests.accept.commands import run
from tests.accept.deployment import Deployment, post
from tests.accept.row import Options, Row, judged

QUESTION = "What is the capital of France?"
ASKED = (
    f"'{QUESTION}' at temperature 0 answers Paris through curl and the openai client, streamed and not; "
    "KV bytes sent are those that D lacks; D computes no prompt token again"
)
COLD_TOKENS, SHARED_TOKENS, TAIL_TOKENS = 200, 128, 80


def measure(_: Options) -> Row:
    with Deployment() as up:
        texts = {**ask_by_http(up.url, up.model), **ask_by_client(up.url, up.model)}
        up.wait_until_quiescent()
        moved = measure_transfers(up)
        num_again = int(up.metrics("decode0")["prompt_tokens_computed_total"])
    num_paris = sum("Paris" in text for text in texts.values())
    is_met = num_paris == len(texts) == 4 and num_again == 0
    is_met = is_met and all(moved[kind] == moved[f"{kind} expected"] for kind in ("cold", "cached"))
    measured = f"{num_paris} of {len(texts)} say Paris ({', '.join(texts)}); " + "; ".join(
        f"{kind} prompt {moved[kind]:,} of {moved[f'{kind} expected']:,} bytes" for kind in ("cold", "cached")
    )
    return judged(ASKED, f"{measured}; D computed {num_again} prompt tokens", is_met, texts=texts, bytes=moved)


def chat_body(model: str, is_stream: bool) -> dict[str, Any]:
    messages = [{"role": "user", "content": QUESTION}]
    return {"model": model, "messages": messages, "temperature": 0, "max_tokens": 24, "stream": is_stream}


def ask_by_http(url: str, model: str) -> dict[str, str]:
    """Through curl where there is one, else by hand."""
    found = {}
    for is_stream in (False, True):
        body = json.dumps(chat_body(model, is_stream))
        if shutil.which("curl"):
            name, text = "curl", curl(f"{url}/v1/chat/completions", body)
        else:
            request = Request(f"{url}/v1/chat/completions", body.encode(), {"Content-Type": "application/json"})
            with urlopen(request, timeout=120) as answer:
                name, text = "http", answer.read().decode()
        found[f"{name} streamed" if is_stream else name] = text_of_stream(text) if is_stream else text_of_whole(text)
    return found


def curl(url: str, body: str) -> str:
    return run(["curl", "-sSN", url, "-H", "Content-Type: application/json", "-d", body], 120).output


def text_of_whole(answer: str) -> str:
    return str(json.loads(answer)["choices"][0]["message"]["content"])


def text_of_stream(answer: str) -> str:
    """Of a whole stream; empty if its end marker is missing."""
    events = [line.removeprefix("data: ") for line in answer.splitlines() if line.startswith("data: ")]
    if not events or events[-1] != "[DONE]":
        return ""
    deltas = [choice["delta"] for event in events[:-1] for choice in json.loads(event)["choices"]]
    return "".join(delta.get("content") or "" for delta in deltas)


def ask_by_client(url: str, model: str) -> dict[str, str]:
    from openai import OpenAI

    body = chat_body(model, False)
    del body["stream"]
    with OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0, timeout=120) as client:
        whole = client.chat.completions.create(**body)
        chunks = list(client.chat.completions.create(**body, stream=True))
    streamed = "".join(choice.delta.content or "" for chunk in chunks for choice in chunk.choices)
    return {"openai": whole.choices[0].message.content or "", "openai streamed": streamed}


def kv_token_bytes(folder: Path) -> int:
    """Bytes of KV of one token, from the model's own configuration."""
    config = json.loads((folder / "config.json").read_text())
    head_dim = config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"]
    width = config["num_key_value_heads"] * head_dim * DTYPE_BYTES[read_model_info(folder).dtype]
    return int(2 * config["num_hidden_layers"] * width)


def measure_transfers(up: Deployment) -> dict[str, int]:
    """Bytes posted for a prompt that nobody has seen, and for one whose first two blocks D holds."""
    token_bytes = kv_token_bytes(fetch())
    cold = [(11 * i * i + 7 * i) % 40_000 + 100 for i in range(COLD_TOKENS)]
    tail = [(13 * i * i + 5 * i) % 40_000 + 100 for i in range(TAIL_TOKENS)]
    return {
        "cold": posted_bytes(up, cold),
        "cold expected": COLD_TOKENS * token_bytes,
        "cached": posted_bytes(up, cold[:SHARED_TOKENS] + tail),
        "cached expected": TAIL_TOKENS * token_bytes,
    }


def posted_bytes(up: Deployment, prompt: list[int]) -> int:
    before = up.metrics("prefill0")["kv_transfer_bytes_total"]
    body = {"model": up.model, "prompt": prompt, "max_tokens": 4, "temperature": 0, "ignore_eos": True}
    post(f"{up.url}/v1/completions", body)
    up.wait_until_quiescent()
    return int(up.metrics("prefill0")["kv_transfer_bytes_total"] - before)
