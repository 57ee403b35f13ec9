"""How long prompts should wait for company, from measured costs (C15).

A step of prompts costs `fixed + token · tokens`. Two prompts in one step cost the fixed part once less, and each
sequence that decodes is interrupted for that much less. So with `k` prompts in hand, `b` sequences that decode and the
next prompt expected in `gap`:

    gain of waiting for it   b · fixed         seconds that sequences spend interrupted
    price                    k · gap · PRICE   seconds that prompts wait longer, each counted for `PRICE`

Waiting is worth it while `gap < patience`, with `patience = b · fixed / (k · PRICE)`: many decodes make it longer, and
each prompt that comes makes it shorter. It begins only if arrivals of late were closer than that, and it ends when
none has come for so long. Where the fixed part is less than `MIN_SHARE` of the step in hand there is nothing to share,
and the patience is 0: so it is where cost is linear in tokens. With a target for the time between tokens, there is no
hold while that time is kept without one.

Where nothing waits but the rests of prompts whose first parts are computed, the price is `REST_PRICE`: a rest that goes
alone keeps the next prompt that comes waiting for its step and, worse, from sharing it. So steps of a long prompt wait
for company where a new prompt would not, each for no longer than the bound of such a prompt.

Protection with `protect = adaptive` asks the same: where the fixed part was less than `MIN_SHARE` of the steps of
prompts of late, prompts take as long apart as together, and keeping them apart only makes them wait.

A step of an executor that computes prompts alone asks it the other way round. All its prompts are done when it is, so
a further one of `n` tokens makes the `k` before it wait for its tokens, and saves itself and all behind it the fixed
part:

    gain of sharing   w · fixed          w: prompts that could be computed now, this one counted
    price             k · token · n

It shares the step while that gains something, or while the fixed part is at least `MIN_SHARE` of the step so far: what
a busy executor loses by steps that are not filled is less than that part of its time, and the more wait the less. Where
cost is linear in tokens prompts are done one after the other; a card's step is filled.
"""

from __future__ import annotations

MIN_SHARE = 0.2  #: part of a step's cost that must be fixed for company to be worth a wait, or a step worth sharing
PRICE = 4.0  #: interrupted seconds of decodes that outweigh one second of a prompt's wait
REST_PRICE = 1.0  #: the same of a prompt whose first part is computed


def patience_s(
    fixed_s: float, token_s: float, num_tokens: int, num_prompts: int, num_decodes: int, price: float = PRICE
) -> float:
    """How long the next prompt may take to come; 0: nothing is gained by waiting for it."""
    cost_s = fixed_s + token_s * num_tokens
    if cost_s <= 0 or fixed_s < MIN_SHARE * cost_s:
        return 0.0
    return num_decodes * fixed_s / (num_prompts * price)


def is_sharing_worth(
    fixed_s: float, token_s: float, num_tokens: int, num_prompts: int, num_more: int, num_waiting: int
) -> bool:
    """Whether a step of so many tokens and prompts should take `num_more` tokens of the first of those that wait."""
    if fixed_s >= MIN_SHARE * (fixed_s + token_s * num_tokens):
        return True
    return num_waiting * fixed_s >= num_prompts * token_s * num_more
