"""The arithmetic of the model that is no model: what KV memory holds, which token follows (simulator and fake device).

Each slot of KV memory holds the digest of the whole token prefix up to it, made from the digest *read at the slot
before*. The next token is a hash of the digest *read at the last slot*: whoever reads a stale or foreign block emits
wrong tokens.

The mixing function is the finalizer of SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number
generators", 2014; constants of Vigna's public-domain `splitmix64.c`): a bijection of 64-bit numbers. All values are
Python ints in [0, 2^64).
"""

from __future__ import annotations

from baton.core.wire.tokens import TokenLogprobs

MASK_64 = (1 << 64) - 1
GOLDEN_GAMMA = 0x9E3779B97F4A7C15  #: SplitMix64's increment: odd, 2^64 divided by the golden ratio
EMPTY_DIGEST = 0x6A09E667F3BCC908  #: digest of the empty prefix: what position 0 reads as "the slot before"
CHECK_SALT = 0xBB67AE8584CAA73B
SCORE_SALT = 0x3C6EF372FE94F82B
DEAD_END_SALT = 0xA54FF53A5F1D36F1


def mix_64(value: int) -> int:
    """SplitMix64's finalizer: every bit of the result depends on every bit of `value`."""
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & MASK_64
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & MASK_64
    return value ^ (value >> 31)


def next_digest(previous: int, token: int) -> int:
    """Digest of a prefix that ends with `token` after the prefix of digest `previous`."""
    return mix_64((previous + (token + 1) * GOLDEN_GAMMA) & MASK_64)


def prefix_digest(tokens: tuple[int, ...] | list[int]) -> int:
    """Digest of a whole prefix, as memory should hold it at the last slot."""
    digest = EMPTY_DIGEST
    for token in tokens:
        digest = next_digest(digest, token)
    return digest


def check_word(digest: int) -> int:
    """What a slot's second plane holds beside `digest`, so that a half-written slot does not read as a whole one."""
    return mix_64(digest ^ CHECK_SALT)


def read_digest(digest: int, check: int) -> int:
    """The digest that a reader gets from a slot's two planes: `digest` if they belong together, else another number."""
    return digest ^ check ^ check_word(digest)


def draw_64(digest: int, seed: int, position: int, choice: int) -> int:
    """64 bits that depend on the prefix read from memory, the request's seed, the output position and the choice."""
    return next_digest(next_digest(next_digest(digest, seed), position), choice)


def next_token(digest: int, seed: int, position: int, choice: int, vocab_size: int) -> int:
    """The token that follows the prefix of digest `digest` as output number `position` (from 0), in [0, vocab_size)."""
    return draw_64(digest, seed, position, choice) % vocab_size


def is_end(digest: int, seed: int, position: int, choice: int, one_in: int) -> bool:
    """Whether the model ends its answer here: about one position in `one_in`, never with 0."""
    return one_in > 0 and mix_64(draw_64(digest, seed, position, choice)) % one_in == 0


def is_dead_end(digest: int, seed: int, grammar: str) -> bool:
    """Whether the grammar cannot go on after this prefix. A grammar of the simulator's is a number: about one prefix in
    so many is a dead end; the empty one has none."""
    return bool(grammar) and mix_64(next_digest(digest, seed) ^ DEAD_END_SALT) % int(grammar) == 0


def score(digest: int, token: int) -> float:
    """What stands for the log-probability of `token` after the prefix of digest `digest`: exact in float32."""
    return -(mix_64(next_digest(digest, token) ^ SCORE_SALT) >> 44) / 65536


def token_scores(digest: int, token: int, num_top: int, vocab_size: int) -> TokenLogprobs:
    """The score of `token`, and of `num_top` alternatives in [0, vocab_size), which are no more likely than others."""
    first = mix_64(digest ^ SCORE_SALT)
    top = tuple([(first + index) % vocab_size for index in range(num_top)])
    return TokenLogprobs(score(digest, token), top, tuple([score(digest, each) for each in top]))
