"""One choice of a request: tokens in, text out, up to a stop string or the finish.

Text that may turn out to begin a stop string is held back, and with it the tokens that no released text needs yet, so
that text, log-probabilities and usage always end at the same token.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from baton.core.errors import InvariantViolated
from baton.core.executor.steps import SampledToken
from baton.services.router.text.detokenize import Detokenizer
from baton.services.router.text.stop_strings import StopScanner
from baton.services.router.text.token_table import TokenTable


class PlacedToken(NamedTuple):
    """An output token and where its text starts within the text of the choice; in the middle of a character, where that
    starts."""

    sampled: SampledToken
    start_char: int


class Delta(NamedTuple):
    """What became certain since the last one."""

    text: str
    tokens: tuple[PlacedToken, ...]
    finish: str  #: "stop" or "length" with the last delta, else empty
    is_first: bool


class ChoiceText:
    """Invariant: the released tokens are the fewest whose text covers the released text; after the finish, all that
    count. A stop string is honoured only where at least `min_tokens` tokens come out before it. Without `keeps_tokens`
    the tokens themselves are not released, for answers that do not show them."""

    def __init__(
        self,
        table: TokenTable,
        stops: tuple[str, ...],
        stop_token_ids: tuple[int, ...],
        min_tokens: int,
        keeps_tokens: bool = True,
    ) -> None:
        self.num_tokens = 0  #: received; after the finish those that count
        self.finish = ""
        self._detokenizer = Detokenizer(table)
        self._scanner = StopScanner(stops) if stops else None
        self._is_plain = not stops and not keeps_tokens
        self._stop_token_ids = stop_token_ids
        self._min_tokens = min_tokens
        self._scan_start = 0  #: no stop string may start before it, so that `min_tokens` tokens have text
        self._num_chars = 0  #: text received
        self._held = ""  #: its end that is not released
        self._held_tokens: deque[PlacedToken] = deque()
        self._text: list[str] = []  #: released, not taken
        self._tokens: list[PlacedToken] = []  #: released, not taken
        self._plain: list[int] = []  #: ids whose text is not taken, where nothing is held back
        self._num_taken_chars = 0
        self._is_first = True
        self._is_taken = True  #: nothing to take

    def push(self, offset: int, tokens: tuple[SampledToken, ...], finish: str) -> int | None:
        """Take the next tokens. Returns how many output tokens count if a stop string ended the choice early."""
        if self.finish:
            return None
        if offset != self.num_tokens:
            raise InvariantViolated(f"tokens delivered at offset {offset}, expected {self.num_tokens}")
        if self._is_plain:
            self._push_plain(tokens, finish)
            return None
        last = len(tokens) - 1
        for index, sampled in enumerate(tokens):
            is_end = index == last and self._is_end(sampled, finish)
            text = self._place(sampled, is_end)
            if self._add(text):
                self._release_all("stop")
                return None if finish and index == last else self.num_tokens
        if finish:
            self._release_all("stop" if self._add(self._detokenizer.flush()) else finish)
        else:
            self._release_certain()
        return None

    def _place(self, sampled: SampledToken, is_end: bool) -> str:
        """Hold the token; returns the text that is complete with it."""
        before = self._detokenizer.num_flushed if is_end else self._detokenizer.num_before(sampled.token)
        start = self._num_chars + before
        self._held_tokens.append(PlacedToken(sampled, start))
        self.num_tokens += 1
        if self.num_tokens == self._min_tokens:
            self._scan_start = start + 1
        return "" if is_end else self._detokenizer.push(sampled.token)

    def _is_end(self, last: SampledToken, finish: str) -> bool:
        """Whether the choice's last token only says that it ends."""
        return finish == "stop" and last.token in self._stop_token_ids

    def _push_plain(self, tokens: tuple[SampledToken, ...], finish: str) -> None:
        """Nothing is held back and no place is needed: the tokens become text when that is taken."""
        self.num_tokens += len(tokens)
        if finish:
            self.finish = finish
            if tokens and self._is_end(tokens[-1], finish):
                tokens = tokens[:-1]
        for sampled in tokens:
            self._plain.append(self._detokenizer.check(sampled.token))
        self._is_taken = False

    def _take_plain(self) -> Delta | None:
        tokens, self._plain = self._plain, []
        text = self._detokenizer.push(*tokens)
        if self.finish:
            text += self._detokenizer.flush()
        self._is_taken = True
        if not text and not self.finish:
            return None
        delta = Delta(text, (), self.finish, self._is_first)
        self._is_first = False
        return delta

    @property
    def has_more(self) -> bool:
        """Whether there is something to take."""
        return not self._is_taken

    def take(self, max_tokens: int) -> Delta | None:
        """Released text and tokens since the last call, of at most so many tokens, or None; the finish comes last."""
        if self._is_taken:
            return None
        if self._is_plain:
            return self._take_plain()
        text, tokens = "".join(self._text), self._tokens
        num_chars, finish = len(text), self.finish
        if len(tokens) > max_tokens:
            num_chars, finish = tokens[max_tokens].start_char - self._num_taken_chars, ""
        delta = Delta(text[:num_chars], tuple(tokens[:max_tokens]), finish, self._is_first)
        self._text, self._tokens = [text[num_chars:]], tokens[max_tokens:]
        self._num_taken_chars += num_chars
        self._is_taken, self._is_first = not self._tokens, False
        return delta

    def _add(self, text: str) -> bool:
        """Append text; whether a stop string ended in it (then everything from its start is cut off)."""
        start = self._num_chars
        self._num_chars += len(text)
        self._held += text
        if self._scanner is None or self.num_tokens < self._min_tokens:
            return False
        skipped = min(max(0, self._scan_start - start), len(text))
        match = self._scanner.push(text[skipped:])
        if match is None:
            return False
        self._cut(start + skipped + match.end - match.length)
        return True

    def _cut(self, num_chars: int) -> None:
        """End the text at `num_chars` and drop the tokens that it does not need."""
        self._held = self._held[: len(self._held) - (self._num_chars - num_chars)]
        self._num_chars = num_chars
        while self._held_tokens and self._held_tokens[-1].start_char >= num_chars:
            self._held_tokens.pop()
            self.num_tokens -= 1

    def _release_certain(self) -> None:
        num_held = self._scanner.num_held if self._scanner else 0
        if len(self._held) > num_held:
            cut = len(self._held) - num_held
            self._text.append(self._held[:cut])
            self._held = self._held[cut:]
            self._is_taken = False
        released = self._num_chars - num_held
        while self._held_tokens and self._held_tokens[0].start_char < released:
            self._tokens.append(self._held_tokens.popleft())
            self._is_taken = False

    def _release_all(self, finish: str) -> None:
        self._text.append(self._held)
        self._tokens.extend(self._held_tokens)
        self._held = ""
        self._held_tokens.clear()
        self.finish = finish
        self._is_taken = False
