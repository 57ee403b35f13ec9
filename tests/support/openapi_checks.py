"""What schemathesis checks of our answers besides its own: loaded by its command line as a module of hooks."""

from __future__ import annotations

import re

import schemathesis
from schemathesis import Case, CheckContext, GenerationMode, Response

#: codes of refusals that need more than one field, the text inside one, or the model
OF_CONTEXT = {
    "conflict", "context_length_exceeded", "duplicate_id", "duplicate_name", "empty", "invalid_json", "invalid_schema",
    "too_deep", "token_out_of_range", "unknown_call", "unknown_function",
}  # fmt: skip
#: and those where it depends on the field
OF_FIELD = {
    ("best_of", "unsupported_parameter"),  # other than `n`
    ("cache_salt", "out_of_range"),  # its bytes count
    ("guided_json", "invalid_type"),  # as a text: of what is no object
    ("max_tokens", "out_of_range"),  # 0 needs `echo`
    ("max_output_tokens", "out_of_range"),
    ("min_tokens", "out_of_range"),  # more than `max_tokens`
    ("n", "too_many"),  # with all prompts
    ("tools", "unsupported_parameter"),  # where the model's template has none
}
SHORT_S = 10.0  #: a request that gives itself less may get no answer in time
FLOAT = re.compile(r".*: expected integer[^,]*, got number$")  #: JSON Schema counts 1.0 among the integers


@schemathesis.check
def refused_for_context_only(ctx: CheckContext, response: Response, case: Case) -> None:
    """What the document calls valid is accepted, or refused for what no schema can say."""
    if case.meta is None or case.meta.generation.mode is not GenerationMode.POSITIVE:
        return
    if response.status_code not in (400, 413, 415, 422):
        return
    error = response.json()["error"]
    if response.status_code == 422 and error["code"] == "invalid_grammar":
        return
    is_known = error["code"] in OF_CONTEXT or (error["param"], error["code"]) in OF_FIELD
    assert is_known or FLOAT.match(error["message"]), f"valid by the document, and refused: {error}"


@schemathesis.check
def no_error_of_the_servers(ctx: CheckContext, response: Response, case: Case) -> None:
    """No 5xx, but where the request itself gave hardly any time."""
    if response.status_code < 500:
        return
    error = response.json()["error"]
    asked_s = case.body.get("timeout") if isinstance(case.body, dict) else None
    is_asked_for = response.status_code == 504 and isinstance(asked_s, float | int) and asked_s < SHORT_S
    assert is_asked_for, f"{response.status_code}: {error}"
