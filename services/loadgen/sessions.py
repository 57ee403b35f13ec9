"""Chats made by chance: every turn repeats what was said before and follows the end of the one before."""

from __future__ import annotations

from collections.abc import Iterator

from baton.services.loadgen.draws import Purpose, generator, parse_spread
from baton.services.loadgen.lengths import Counts, Lengths, draw_tokens
from baton.services.loadgen.load_settings import History, LoadSettings
from baton.services.loadgen.plan import PlannedRequest, Prefix


def num_turns(settings: LoadSettings, num_sessions: int) -> list[int]:
    """Of each chat."""
    turns = draw_tokens(settings.turns, "turns", generator(settings.seed, Purpose.TURNS), num_sessions)
    return [int(count) for count in turns]


def chat_requests(
    settings: LoadSettings,
    starts: list[float | None],
    turns: list[int],
    lengths: Lengths,
    groups: list[tuple[Prefix, ...]],
) -> Iterator[PlannedRequest]:
    """Chat after chat. `starts`, `turns` and `groups` are of chats; `lengths` of all turns, in order: the message's own
    and its answer's. Raises BadLoad."""
    spread = parse_spread(settings.think_s, "think_s", least=0.0, is_whole=False)
    pauses = spread.draw(generator(settings.seed, Purpose.THINK_TIMES), len(lengths.num_input_tokens))
    index = 0
    for number, (start_s, count, group) in enumerate(zip(starts, turns, groups, strict=True)):
        pieces = slice(index, index + count)
        own, answers = lengths.num_input_tokens[pieces], lengths.num_output_tokens[pieces]
        for turn, (num_tokens, prefixes) in enumerate(_turns(settings, number, group, own, answers)):
            yield PlannedRequest(
                index=index,
                session=f"chat-{number}",
                turn=turn,
                at_s=None if turn else start_s,
                after=index - 1 if turn else None,
                think_s=float(pauses[index]) if turn else 0.0,
                is_next_message=turn > 0 and settings.history == History.REAL,
                prefixes=prefixes,
                num_input_tokens=num_tokens,
                max_tokens=int(answers[turn]),
            )
            index += 1


def _turns(
    settings: LoadSettings, number: int, group: tuple[Prefix, ...], own: Counts, answers: Counts
) -> Iterator[tuple[int, tuple[Prefix, ...]]]:
    """Of each turn of a chat how many tokens it brings, and with which it begins.

    A made-up history is one stream of tokens for each chat (a group of its own, above those of the settings), of which
    every turn brings more than the one before::

        turn 0   [ group | own 0 ]
        turn 1   [ group | own 0 | answer 0 | own 1 ]
    """
    shared = sum(prefix.num_tokens for prefix in group)
    num_tokens = shared
    for turn, (num_own, num_answer) in enumerate(zip(own.tolist(), answers.tolist(), strict=True)):
        if settings.history == History.REAL:
            yield (num_own, ()) if turn else (shared + num_own, group)
            continue
        num_tokens += num_own
        yield num_tokens, (*group, Prefix(settings.num_groups + number, num_tokens - shared))
        num_tokens += num_answer
