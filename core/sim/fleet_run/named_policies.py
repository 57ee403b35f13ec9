"""Sets of knobs by name, to see within one command what a policy does. Each is no more than what `--set` could say."""

from __future__ import annotations

from typing import NamedTuple


class NamedPolicy(NamedTuple):
    """What it is for, and its knobs."""

    what: str
    knobs: dict[str, str]  #: as `--set` has them


POLICIES = {
    "ours": NamedPolicy("all knobs as they are by default", {}),
    "plain": NamedPolicy(
        "prompts on P alone, no wait for prefixes, mixed steps: disaggregation and nothing else",
        {"scheduler.placement": "always_pd", "scheduler.prefix_wait": "false", "executor.step_mode": "mixed"},
    ),
    "always_pd": NamedPolicy("as by default, but no prompt on D", {"scheduler.placement": "always_pd"}),
    "mixed": NamedPolicy("decodes and prompts in one step", {"executor.step_mode": "mixed"}),
    "alternate": NamedPolicy(
        "decodes or prompts; prompts wait for company where that gains something", {"executor.step_mode": "alternate"}
    ),
    "prompts_first": NamedPolicy(
        "decodes or prompts; a prompt goes first, at once",
        {
            "executor.step_mode": "alternate",
            "executor.hold": "off",
            "executor.protect": "fixed",
            "executor.protect_steps": "0",
        },
    ),
    "overlap": NamedPolicy("decodes beside prompts, in two lanes", {"executor.step_mode": "overlap"}),
}
