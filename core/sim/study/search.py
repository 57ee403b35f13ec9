"""The search of the settings that serve the most within an SLO.

A candidate *holds* a rate while `KEPT_SHARE` of its requests are good; the highest rate that it holds is what it is
judged by. All candidates are tried at rates of one grid, each `STEP` times the one before, and under the same loads:
what differs between two is theirs.

1. Topologies, with the knobs that the scenario has, climb `CLIMB` steps at a time until they fail (one seed).
2. The best `NUM_FINALISTS` are brought to within one step, with all seeds.
3. Knobs: each value of each knob challenges its topology's best at the first rate which that does not hold. Who holds
   it is brought to within one step, the best of them is the topology's new best, and the others challenge that one.
4. The best of each topology is run at lower rates too: what it gives there is its part of the frontier. Where it does
   not hold one of them, shares are not monotone in the rate: it is brought to within one step below that one.

The search ends earlier when the runs that it may use are used up. No rate is tried above one that is held while the
load comes as one burst (`is_burst`): it is too small to tell of a higher one.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from typing import NamedTuple

from baton.core.sim.study.candidates import Candidate
from baton.core.sim.study.measured import SHARE, Measured, is_burst
from baton.core.sim.study.rates import rounded
from baton.core.sim.study.verdict import KEPT_SHARE

STEP = 1.05
CLIMB = 8  #: steps; 1.05⁸ = 1.48
LEAST, MOST = -64, 160  #: steps: from a 20th to 2,000 times of where the search begins
NUM_FINALISTS = 3
BELOW = (4, 8, 16, 24)  #: steps below the highest rate that are part of a frontier: 82, 68, 46 and 31 % of it


class Ask(NamedTuple):
    """One run."""

    candidate: Candidate
    step: int
    seed: int


Runs = Generator[list[Ask], list[Measured], None]
Resolve = Callable[[Candidate], object]  #: all of its settings; None where they contradict each other


class Bracket(NamedTuple):
    """Where the highest step that is held is looked for: `low` is held, as far as is known, `high` is not. None: not
    known."""

    low: int | None = None
    high: int | None = None


class OutOfRuns(Exception):
    """The search may use no more runs."""


class Search:
    """`run()` says which runs it needs next and is sent their results; what is known by then is here at any time."""

    def __init__(
        self,
        topologies: Iterable[str],
        knobs: Mapping[str, Sequence[str]],
        resolve: Resolve,
        light: float,
        seeds: Sequence[int],
        most_runs: int,
    ) -> None:
        self.results: dict[Ask, Measured] = {}
        self.brackets = {Candidate(topology): Bracket() for topology in topologies}
        self.stage = "topologies"  #: what it is at
        self.is_out_of_runs = False
        self._top = MOST  #: the highest step that is tried
        self._light = light
        self._seeds = seeds
        self._knobs = knobs
        self._resolve = resolve
        self._most_runs = most_runs

    def rate(self, step: int) -> float:
        return rounded(self._light * STEP**step)

    def share(self, candidate: Candidate, step: int) -> float | None:
        """Of good requests, over the seeds that were run; None without a run."""
        runs = self.runs(candidate, step)
        return sum(run.figures.get(SHARE, 0.0) for run in runs) / len(runs) if runs else None

    def runs(self, candidate: Candidate, step: int) -> list[Measured]:
        found = (self.results.get(Ask(candidate, step, seed)) for seed in self._seeds)
        return [run for run in found if run is not None]

    def run(self) -> Runs:
        try:
            yield from self._climb(list(self.brackets), self._seeds[:1])
            finalists = self._best(self.brackets)[:NUM_FINALISTS]
            self.stage = "the best topologies"
            yield from self._settle(finalists)
            self.stage = "knobs"
            yield from self._challenge(finalists)
            self.stage = "frontier"
            yield from self._look_below()
        except OutOfRuns:
            self.is_out_of_runs = True

    def held(self, candidate: Candidate) -> int | None:
        """The highest step that it holds, below the first that it does not."""
        steps = {ask.step for ask in self.results if ask.candidate == candidate}
        lost = self.lost(candidate)
        return max((step for step in steps if lost is None or step < lost), default=None)

    def lost(self, candidate: Candidate) -> int | None:
        """The lowest step that it was tried at and does not hold."""
        steps = {ask.step for ask in self.results if ask.candidate == candidate}
        return min((step for step in steps if not self._holds(candidate, step)), default=None)

    def holds_again(self, candidate: Candidate) -> list[int]:
        """Steps that it holds, with all seeds, above the lowest that it does not: shares do not fall evenly then."""
        lost = self.lost(candidate)
        if lost is None:
            return []
        steps = {ask.step for ask in self.results if ask.candidate == candidate and ask.step > lost}
        return sorted(step for step in steps if self._is_whole(candidate, step) and self._holds(candidate, step))

    def is_unbounded(self, candidate: Candidate) -> bool:
        """Whether it holds the highest rate of which the load tells anything."""
        held = self.held(candidate)
        return held is not None and held >= self._top and self.lost(candidate) is None

    def is_within_step(self, candidate: Candidate) -> bool:
        """Whether the first rate that it does not hold is the one after the last that it holds."""
        held, lost = self.held(candidate), self.lost(candidate)
        return held is not None and lost is not None and lost - held == 1

    def is_sure(self, candidate: Candidate) -> bool:
        """Whether what it holds was run with all seeds."""
        held = self.held(candidate)
        return held is not None and self._is_whole(candidate, held)

    def finalists(self) -> list[Candidate]:
        """The best one of each topology that holds any rate, the best first; of those that were run with all seeds, if
        there are any."""
        best: dict[str, Candidate] = {}
        sure = [candidate for candidate in self.brackets if self.is_sure(candidate)]
        for candidate in self._best(sure or self.brackets):
            best.setdefault(candidate.topology, candidate)
        return list(best.values())[:NUM_FINALISTS]

    def _best(self, candidates: Iterable[Candidate]) -> list[Candidate]:
        """Those that hold any rate: by the highest, then by the share of good requests at the first that is not held;
        of equal ones that with fewer knobs set, and then the first."""

        def worth(candidate: Candidate) -> tuple[float, ...]:
            held, lost = self.held(candidate), self.lost(candidate)
            assert held is not None
            share = None if lost is None else self.share(candidate, lost)
            return -held, -(1.0 if share is None else share), len(candidate.knobs)

        return sorted((each for each in candidates if self.held(each) is not None), key=worth)

    # ---- runs

    def _try(self, wanted: Sequence[tuple[Candidate, int]], seeds: Sequence[int]) -> Runs:
        """Those that are not known yet. Raises OutOfRuns where that would be too many."""
        asks = [Ask(candidate, step, seed) for candidate, step in wanted for seed in seeds]
        missing = [ask for ask in dict.fromkeys(asks) if ask not in self.results]
        if len(self.results) + len(missing) > self._most_runs:
            raise OutOfRuns
        if missing:
            self.results.update(zip(missing, (yield missing), strict=True))
            self._top = min([self._top, *(step for each, step in wanted if self._is_burst(each, step))])

    def _holds(self, candidate: Candidate, step: int) -> bool:
        share = self.share(candidate, step)
        return share is not None and share >= KEPT_SHARE

    def _is_burst(self, candidate: Candidate, step: int) -> bool:
        """Whether it holds a rate beyond which the load tells nothing."""
        return self._holds(candidate, step) and is_burst(self.runs(candidate, step))

    def _is_whole(self, candidate: Candidate, step: int) -> bool:
        """Whether it was run with all seeds there."""
        return len(self.runs(candidate, step)) == len(self._seeds)

    def _climb(self, candidates: Sequence[Candidate], seeds: Sequence[int], first: int = 0) -> Runs:
        """From one step up, or down where that is not held, until what is held and what is not are `CLIMB` apart."""
        at = dict.fromkeys(candidates, first)
        while at:
            yield from self._try(list(at.items()), seeds)
            going = {}
            for candidate, step in at.items():
                low, high = self.brackets[candidate]
                if self._holds(candidate, step):
                    self.brackets[candidate] = Bracket(step, high)
                    after = step + CLIMB if high is None else None
                else:
                    self.brackets[candidate] = Bracket(low, step)
                    after = step - CLIMB if low is None else None
                if after is not None and LEAST <= after <= self._top:
                    going[candidate] = after
            at = going

    def _settle(self, candidates: Sequence[Candidate]) -> Runs:
        """Until each has one step between what it holds and what it does not, both with all seeds."""
        while wanted := [(each, step) for each in candidates if (step := self._next(each)) is not None]:
            yield from self._try(wanted, self._seeds)
            for candidate, step in wanted:
                low, high = self.brackets[candidate]
                if self._holds(candidate, step):
                    is_above = high is None or step >= high
                    self.brackets[candidate] = Bracket(step, self._above(step) if is_above else high)
                else:
                    is_below = low is None or step <= low
                    below = step - CLIMB if step - CLIMB >= LEAST else None
                    self.brackets[candidate] = Bracket(below if is_below else low, step)

    def _next(self, candidate: Candidate) -> int | None:
        """The step that tells most of a bracket; None where there is nothing more to tell."""
        low, high = self.brackets[candidate]
        if low is None:
            return None
        if not self._is_whole(candidate, low):
            return low
        if high is None:
            return None
        if high - low > 1:
            return (low + high) // 2
        return None if self._is_whole(candidate, high) else high

    def _above(self, step: int) -> int | None:
        """What is taken not to be held where `step` is; None where nothing above it is tried."""
        return min(step + CLIMB, self._top) if step < self._top else None

    # ---- lower rates

    def _look_below(self) -> Runs:
        num_known = -1
        while num_known < len(self.results):
            num_known = len(self.results)
            bests = self.finalists()
            yield from self._try([(best, step) for best in bests for step in self._below(best)], self._seeds)
            open_ones = [best for best in bests if self.lost(best) is not None and not self.is_within_step(best)]
            for best in open_ones:
                self.brackets[best] = self._open(best)
            yield from self._settle(open_ones)

    def _open(self, candidate: Candidate) -> Bracket:
        held, lost = self.held(candidate), self.lost(candidate)
        assert lost is not None
        if held is not None:
            return Bracket(held, lost)
        return Bracket(lost - CLIMB if lost - CLIMB >= LEAST else None, lost)

    # ---- knobs

    def _challenge(self, bests: Sequence[Candidate]) -> Runs:
        going = list(bests)
        while going := [best for best in going if self.brackets[best].high is not None]:
            fields = {best: self._challengers(best) for best in going}
            wanted = [(each, self._first_lost(best)) for best in going for each in fields[best]]
            yield from self._try(wanted, self._seeds)
            winners = []
            for best in going:
                step = self._first_lost(best)
                for each in fields[best]:
                    holds = self._holds(each, step)
                    self.brackets[each] = Bracket(step, self._above(step)) if holds else Bracket(None, step)
                    winners += [each] if holds else []
            yield from self._settle(winners)
            going = [
                found[0]
                for best in going
                if (found := self._best([each for each in fields[best] if each in winners]))
                and self._height(found[0]) > self._height(best)
            ]

    def _height(self, candidate: Candidate) -> float:
        held = self.held(candidate)
        return float("-inf") if held is None else held

    def _first_lost(self, best: Candidate) -> int:
        high = self.brackets[best].high
        assert high is not None  # whoever is challenged has been settled
        return high

    def _challengers(self, best: Candidate) -> list[Candidate]:
        """Each knob's other values, one at a time; without those that change nothing, or that cannot be."""
        own, found = self._resolve(best), list[Candidate]()
        for knob, values in self._knobs.items():
            for value in values if best.concerns(knob) else ():
                each = best.having(knob, value)
                settings = self._resolve(each)
                if settings is not None and settings != own and each not in self.brackets:
                    found.append(each)
        return found

    def _below(self, best: Candidate) -> list[int]:
        held = self.held(best)
        assert held is not None
        return [held, *(held - below for below in BELOW if held - below >= LEAST)]
