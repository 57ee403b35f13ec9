"""How much work a grammar may cause: in the check, and again in each executor that compiles what was checked."""

from __future__ import annotations

from llguidance import LLParserLimits

MAX_GRAMMAR_BYTES = 65536  #: of the built string; reading it takes up to 4 µs a byte before any other limit acts
MAX_CHECK_CPU_S = 0.5  #: of compiling and trying one grammar: some 75 masks, so that none takes long on average
MAX_CHECK_MEMORY_BYTES = 1 << 30  #: on top of what the vocabulary takes
CHECK_STACK_BYTES = 2 << 20  #: a quarter of what threads of executors have, so that what passes fits there


def parser_limits() -> LLParserLimits:
    """Of the library: fuel is spent at 10 … 50 thousand a millisecond, items at about a thousand."""
    return LLParserLimits(
        initial_lexer_fuel=500_000,
        step_lexer_fuel=100_000,
        step_max_items=10_000,
        max_items_in_row=1_000,
        max_lexer_states=20_000,  # about 2 kB each
        max_grammar_size=100_000,
        verbose_errors=False,
    )
