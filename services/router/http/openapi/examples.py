"""Bodies that are answered with a 200 where this model is served."""

from __future__ import annotations

from typing import Any

from baton.services.router.api.bodies import ChatBody, CompletionBody
from baton.services.router.api.responses_bodies import ResponsesBody
from baton.services.router.api.tokenizing import DetokenizeBody, TokenizeBody


def examples(model: str) -> dict[type, dict[str, Any]]:
    """By type of the body, then by name."""
    question = [{"role": "user", "content": "What is the capital of France?"}]
    return {
        CompletionBody: {
            "greedy": {"model": model, "prompt": "The capital of France is", "max_tokens": 16, "temperature": 0},
            "streamed": {
                "model": model,
                "prompt": "Once upon a time",
                "max_tokens": 32,
                "stream": True,
                "stream_options": {"include_usage": True},
            },
        },
        ChatBody: {
            "greedy": {"model": model, "messages": question, "max_tokens": 32, "temperature": 0},
            "streamed": {"model": model, "messages": question, "max_tokens": 32, "stream": True, "timing": True},
        },
        ResponsesBody: {
            "greedy": {"model": model, "input": "Name a capital.", "max_output_tokens": 32, "temperature": 0},
            "streamed": {"model": model, "input": question, "max_output_tokens": 32, "stream": True},
        },
        TokenizeBody: {
            "text": {"prompt": "Hello there", "return_token_strs": True},
            "conversation": {"model": model, "messages": question},
        },
        DetokenizeBody: {"ids": {"tokens": [0, 1, 2]}},
    }
