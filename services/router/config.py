"""What the HTTP side may spend on one client and on all of them. Every cap is checked before anything is allocated."""

from __future__ import annotations

import msgspec


class HttpConfig(msgspec.Struct, frozen=True):
    """Fixed for the life of the router."""

    served_names: tuple[str, ...]  #: names that `model` may have; the first one is the name in answers
    max_body_bytes: int = 8 << 20  #: larger ones get 413
    max_body_bytes_on_loop: int = 16 << 10  #: larger ones are decoded by a thread
    max_intake_bytes: int = 64 << 20  #: bodies being read or tokenized, of all requests together
    max_open_requests: int = 4096  #: more get 429
    max_headers: int = 64  #: of one request; more get 431
    max_header_bytes: int = 8190  #: of one header or of the request line
    body_timeout_s: float = 30.0  #: from the end of the head to the end of the body
    stall_timeout_s: float = 30.0  #: how long a client may leave its socket full
    stream_interval_s: float = 0.005  #: between two writes of a stream; what comes meanwhile goes out together
    keepalive_timeout_s: float = 75.0  #: an idle connection is closed then
    stop_grace_s: float = 5.0  #: for running answers when the server stops
    default_timeout_s: float = 600.0  #: deadline of a request that names none
    max_timeout_s: float = 3600.0  #: the longest deadline that a request may name
    retry_after_s: int = 1  #: what an answer that may be asked for again says
    default_max_tokens: int = 0  #: for requests that name none; 0: what OpenAI's API has
    max_prompts: int = 64  #: of one completion request
    max_choices: int = 16  #: `n`
    max_total_choices: int = 128  #: `n` times the prompts
    max_scored_prompt_tokens: int = 8192  #: of a prompt whose tokens get log-probabilities
    max_scores: int = 160 << 10  #: of all prompts' tokens in one answer: alternatives count, and each choice
    max_logprobs: int = 20  #: alternatives for each token
    max_stop_strings: int = 4  #: of one request
    max_stop_chars: int = 256  #: of one stop string
    max_stop_token_ids: int = 64  #: of one request
    max_logit_bias: int = 300  #: entries in `logit_bias`
    max_messages: int = 4096  #: of one conversation
    max_content_parts: int = 256  #: of one message
    max_tools: int = 128  #: of one request
    max_tools_bytes: int = 256 << 10  #: of all tools, as JSON
    max_grammar_bytes: int = 64 << 10  #: of a schema, an expression or all choices, as the client sent it
    max_guided_choices: int = 1024  #: of one request
    max_waiting_grammars: int = 64  #: to be checked, one at a time
    tool_format: str = "auto"  #: how the model writes tool calls; auto: as its chat template says
    max_salt_bytes: int = 256  #: of `cache_salt`
    max_priority: int = 9  #: 0 is the most urgent and the default: a client can only stand back
    num_tokenizer_threads: int = 2  #: beside the event loop
    cors_allow_origins: tuple[str, ...] = ()  #: pages that browsers let call this; * for all; none by default

    @property
    def max_built_grammar_bytes(self) -> int:
        """Of what is built around what a client sent: a text in quotes within a text in quotes."""
        return 4 * self.max_grammar_bytes


class Limits(msgspec.Struct, frozen=True):
    """What the live executors can take together; the service replaces it when the roster changes."""

    max_model_len: int  #: prompt and output of one choice
    max_prompt_len: int
    layout_fingerprint: bytes  #: 16 bytes, mixed into every block hash
    block_size: int  #: tokens per block
