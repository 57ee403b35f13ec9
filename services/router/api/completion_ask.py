"""POST /v1/completions: from the typed body to an `Ask`."""

from __future__ import annotations

import array
from typing import Any

from baton.services.router.api.ask import Ask, Blame
from baton.services.router.api.bodies import CompletionBody
from baton.services.router.api.ranges import INT32_MAX, at_most, check_token_ids, within
from baton.services.router.api.sampling import common_fields, output_length, prompt_logprobs, sampling_params
from baton.services.router.api.structure import structure_of
from baton.services.router.config import HttpConfig
from baton.services.router.errors import invalid

MAX_TOKENS = 16  #: as OpenAI's API has it
BLAME = Blame("prompt", "max_tokens")


def one_prompt(param: str, prompt: str | list[Any], vocab_size: int) -> str | bytes:
    """Text, or token ids as int32."""
    if not prompt:
        raise invalid(f"{param} is empty", param, "empty")
    if isinstance(prompt, str):
        return prompt
    check_token_ids(param, prompt, vocab_size)
    return array.array("i", prompt).tobytes()


def prompts_of(prompt: str | list[int | str | list[int]], vocab_size: int, config: HttpConfig) -> list[str | bytes]:
    """The prompts, which are all texts or all lists of token ids."""
    if isinstance(prompt, str) or not prompt or isinstance(prompt[0], int):
        if isinstance(prompt, list):
            check_kind(prompt, int)
        return [one_prompt("prompt", prompt, vocab_size)]
    check_kind(prompt, type(prompt[0]))
    at_most("prompt", len(prompt), config.max_prompts, "prompts")
    is_alone = len(prompt) == 1
    return [
        one_prompt("prompt" if is_alone else f"prompt[{index}]", inner, vocab_size)
        for index, inner in enumerate(prompt)
        if not isinstance(inner, int)
    ]


def check_kind(prompt: list[Any], kind: type) -> None:
    """All items are of one kind, that of the first."""
    if set(map(type, prompt)) - {kind}:
        other_at = next(index for index, item in enumerate(prompt) if type(item) is not kind)
        names = {int: "token ids", str: "texts", list: "lists of token ids"}
        at = f"prompt[{other_at}]"
        raise invalid(f"{at} is of another kind than prompt[0]: all are {names[kind]}", at, "invalid_type")


def completion_ask(body: CompletionBody, vocab_size: int, config: HttpConfig) -> Ask:
    if body.suffix:
        raise invalid("suffix is not supported", "suffix", "unsupported_parameter")
    if body.best_of not in (None, body.n or 1):
        raise invalid("best_of other than n is not supported", "best_of", "unsupported_parameter")
    if body.max_tokens == 0 and not body.echo:
        limit = f"must be from 1 to {INT32_MAX}, or with echo from 0"
        raise invalid(f"max_tokens is 0, {limit}", "max_tokens", "out_of_range")
    num_logprobs = within("logprobs", body.logprobs, -1, 0, config.max_logprobs)
    num_shown = prompt_logprobs(body, config)
    num_scores = max(num_shown, num_logprobs) if body.echo else num_shown
    structure = structure_of(body, config)
    prompts = tuple(prompts_of(body.prompt, vocab_size, config))
    fields = common_fields(body, config)
    at_most("n", len(prompts) * fields["num_choices"], config.max_total_choices, "answers with all prompts")
    return Ask(
        prompts=prompts,
        blame=BLAME,
        echo=bool(body.echo),
        num_prompt_logprobs=num_shown,
        grammar_param=structure.param,
        sampling=sampling_params(body, num_logprobs, num_scores, structure.grammar, vocab_size, config),
        **output_length(body, config, least=0 if body.echo else 1, default=MAX_TOKENS),
        **fields,
    )
