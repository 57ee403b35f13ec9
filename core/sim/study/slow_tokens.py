"""Why the tokens after the first one come later than another deployment's."""

from __future__ import annotations

from baton.core.sim.study.late_first_tokens import first_token_s, why_first_late
from baton.core.sim.study.sides import Side, high_percentile, idle_text
from baton.core.sim.study.texts import counted, milliseconds, percent, time_text

SLOW_SHARE = 0.01  #: of an answer's tokens: a 99th percentile is late where so many of them are, or one of fewer


def why_tokens_late(loser: Side, winner: Side, limit_s: float) -> str | None:
    """Of the 99th percentile of a request's tokens. None where nothing that is longer than the limit happens more often
    than in the winner's runs, and often enough for the requests that break it."""
    length = loser.tokens_per_answer
    handed_over_s, at = _handed_over(loser, loser.kept("itl_s"))
    is_one_enough = length is None or length <= 1 / SLOW_SHARE
    if is_one_enough and handed_over_s > max(limit_s, _handed_over(winner, loser.kept("itl_s"))[0]):
        return f"the hand-off of KV takes {time_text(handed_over_s)} ({at}) between an answer's first two tokens"
    needed = (1 - loser.kept("itl_s")) * max(SLOW_SHARE, 1 / length if length else 0.0)
    ours, theirs = loser.tokens, winner.tokens
    found = []
    if ours.late_with_prompts >= needed and ours.late_with_prompts > theirs.late_with_prompts:
        text = f"{_shared(loser)}, and {percent(ours.late_with_prompts)} of the tokens come of such steps longer than "
        found.append((ours.late_with_prompts - theirs.late_with_prompts, text + time_text(limit_s)))
    if _is_slower(loser, winner) and ours.late_alone >= needed and ours.late_alone > theirs.late_alone:
        text = f"{_crowded(loser, winner)}, and {percent(ours.late_alone)} of the tokens come of steps longer than "
        found.append((ours.late_alone - theirs.late_alone, text + time_text(limit_s) + idle_text(loser)))
    return max(found)[1] if found else None


def why_answers_slow(loser: Side, winner: Side, bound: str, limit_s: float) -> str | None:
    """Of a bound of time per token, or of the whole answer. None where no part of a request's time makes up half of
    what it takes longer than the winner's."""
    at = high_percentile(loser, bound)
    name = f"{bound}.{at}"
    slow, fast, length = loser.figure(name), winner.figure(name), loser.tokens_per_answer
    if slow is None or fast is None or length is None or slow <= fast:
        return None
    ours, theirs = loser.tokens, winner.tokens
    handed_over_s, of = _handed_over(loser, loser.kept(bound))
    handed_s = handed_over_s - _handed_over(winner, loser.kept(bound))[0]
    parts = {
        _shared(loser): (ours.prompts_s - theirs.prompts_s) * length,
        f"the hand-off of KV takes {time_text(handed_over_s)} ({of})": handed_s,
    }
    if _is_slower(loser, winner):
        parts[_crowded(loser, winner) + idle_text(loser)] = (ours.decode_s - theirs.decode_s) * length
    if bound == "e2e_s" and (first := why_first_late(loser, winner, bound, 0.0)) is not None:
        parts[first] = first_token_s(loser, at) - first_token_s(winner, at)
    text = max(parts, key=lambda each: parts[each])
    longer_s = (slow - fast) * (1 if bound == "e2e_s" else length)
    return text if slow > limit_s and parts[text] >= longer_s / 2 else None


def _is_slower(loser: Side, winner: Side) -> bool:
    return loser.decoding.decode_step_s > winner.decoding.decode_step_s


def _handed_over(side: Side, kept: float) -> tuple[float, str]:
    """The hand-off of those requests that break a bound; 0 s where there is none."""
    at = "p50" if kept < 0.5 else "p90" if kept < 0.9 else "p99"
    return side.wait_s("handed_over", at), at


def _shared(side: Side) -> str:
    use = side.decoding
    without = f", one without {milliseconds(use.decode_step_s)}" if use.decode_step_s else ""
    if not use.mixed_step_s:
        took = f"{milliseconds(use.prompt_step_s)} on average{without}"
        return f"its decodes wait for steps of prompts, which take {took}"
    took = f"a step with a prompt takes {milliseconds(use.mixed_step_s)} on average{without}"
    if not side.has("decode"):
        return f"prompts share its steps, where {took}"
    on_decode = side.mean(lambda run: run.waits.prompts_on_decode)
    of = f"{percent(on_decode)} of the prompts themselves" if on_decode else "prompts again"
    return f"its decode executors compute {of}, and {took}"


def _crowded(loser: Side, winner: Side) -> str:
    """More at once is said only where it is more."""
    ours, theirs = loser.decoding, winner.decoding
    steps = f"takes {milliseconds(ours.decode_step_s)} ({milliseconds(theirs.decode_step_s)})"
    if ours.decodes <= theirs.decodes:
        return f"a step of its decodes {steps}"
    who = f"its answers decode on {counted(ours.count, 'executor')}, {ours.decodes:.0f} at once"
    return f"{who}{'' if ours.count == 1 else ' on each'} ({winner.name}: {theirs.decodes:.0f}), so that a step {steps}"
