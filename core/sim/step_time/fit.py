"""A step-time model from observed steps: least squares of relative errors for each kind of step, no slope negative.

A prompt's tokens may have a knee, since the first ones of a step often cost less than they would alone: it is taken
where it makes the fit better by a twentieth at least. So is a table of what lines miss: kernels are chosen by the size
of a step, so that five decodes may take longer than six. Host time is what lies between two steps, both queued.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from baton.core.errors import ServingError
from baton.core.sim.step_time.contention import alone_s, shares_beside, slowdown_of
from baton.core.sim.step_time.features import Feature, Features, StepKind
from baton.core.sim.step_time.model import PROBABILITIES, KindModel, Piece, StepModel, Term
from baton.core.sim.step_time.observed import ObservedStep
from baton.core.sim.step_time.profile import FitError

MIN_STEPS = 8  #: of a kind; of fewer nothing is said
MIN_QUANTILES = 100  #: steps of a kind whose residuals are told by their quantiles; of fewer by their deviation alone
MIN_BESIDE_KNEE = 12  #: steps on each side of a knee
KNEES = (64, 128, 160, 256, 512, 1024)
ROUNDS = 30  #: of fitting steps without what ran beside them, and then what that cost
GAIN = 0.95  #: a knee or a table is kept where the error falls below this share
MIN_AT_POINT = 16  #: steps of which a point of a table is the mean
MIN_LEFT = 0.1  #: share of what lines say that a table leaves at least
#: whose table a kind of step may have
SIZES: dict[StepKind, Feature] = {StepKind.PREFILL: "tokens", StepKind.DECODE: "decodes"}

Floats = npt.NDArray[np.float64]


class TooFewSteps(ServingError):
    """No kind of step was seen often enough."""


class Fit(NamedTuple):
    """What was found, and how well it fits."""

    model: StepModel
    errors: dict[str, FitError]  #: by kind of step


class _Column(NamedTuple):
    """One unknown of the fit: its value for each step, and the terms that it becomes."""

    of: Callable[[Features], float]
    terms: Callable[[float], list[Term]]


def fit(steps: Sequence[ObservedStep], beside: Sequence[ObservedStep] = ()) -> Fit:
    """Steps of which another lane's ran at the same time are left out. `beside` are those of another executor of the
    same machine: what they cost is told apart from what steps take alone. Raises TooFewSteps."""
    alone = [step for step in steps if step.lane == 0]
    models: dict[StepKind, KindModel] = {}
    errors: dict[str, FitError] = {}
    for kind in StepKind:
        chosen = [step for step in alone if step.features.kind is kind]
        if len(chosen) >= MIN_STEPS:
            models[kind], errors[kind.value] = _fit_beside(kind, chosen, shares_beside(chosen, beside))
    if not models:
        raise TooFewSteps(f"{len(steps)} steps, and of no kind {MIN_STEPS}")
    prefill, decode, mixed = (models.get(kind) for kind in (StepKind.PREFILL, StepKind.DECODE, StepKind.MIXED))
    return Fit(StepModel(prefill=prefill, decode=decode, mixed=mixed, host_s=host_s(alone)), errors)


def _fit_beside(kind: StepKind, steps: Sequence[ObservedStep], shares: Floats) -> tuple[KindModel, FitError]:
    """In turns: the model of what steps would have taken alone, and the slowdown that this model leaves."""
    features, seconds = [step.features for step in steps], np.array([step.duration_s for step in steps])
    slowdown, own_s = 1.0, seconds
    model = fit_kind(kind, features, own_s)
    for _ in range(ROUNDS if shares.any() else 0):
        guesses = np.array([model.seconds(each) for each in features])
        slowdown = slowdown_of(seconds, guesses, shares)
        own_s = alone_s(seconds, shares, slowdown)
        model = fit_kind(kind, features, own_s)
    found = msgspec.structs.replace(model, neighbour_slowdown=round(slowdown, 4))
    return found, fit_error(found, features, own_s)


def fit_kind(kind: StepKind, features: Sequence[Features], seconds: Floats) -> KindModel:
    """Of steps of one kind. Errors are relative to what is fitted, found before with errors relative to what was seen:
    these alone would make every step too short, the more so the noisier it is."""
    rough = _solve(_columns(kind, None), features, seconds, seconds)
    scale = np.array([max(_sum(rough.terms, each), 1e-9) for each in features])
    best = _solve(_columns(kind, None), features, seconds, scale)
    tokens = np.array([each.tokens for each in features])
    for knee in KNEES if kind is not StepKind.DECODE else ():
        if min(int((tokens <= knee).sum()), int((tokens > knee).sum())) >= MIN_BESIDE_KNEE:
            found = _solve(_columns(kind, knee), features, seconds, scale)
            if found.error < GAIN * best.error:
                best = found
    if kind in SIZES:
        best = _with_table(best, SIZES[kind], features, seconds, scale)
    model = KindModel(pieces=(Piece(terms=best.terms),))
    ratios = [float(real) / max(model.seconds(each), 1e-9) for each, real in zip(features, seconds, strict=True)]
    ratios = [max(ratio, 1e-6) for ratio in ratios]
    noise = round(min(float(np.std(np.log(ratios))), 2.0), 6)
    is_many = noise > 0 and len(ratios) >= MIN_QUANTILES
    quantiles = [round(float(each), 6) for each in np.quantile(ratios, PROBABILITIES)] if is_many else []
    return KindModel(pieces=model.pieces, noise=noise, residuals=tuple(quantiles))


def fit_part(kind: StepKind, features: Sequence[Features], seconds: Floats, whole_s: Floats) -> tuple[Term, ...]:
    """Terms of a part of what steps of one kind take: `seconds` of the `whole_s` that each takes in all. Errors are
    relative to the whole, so that the part is met where it matters."""
    return _solve(_columns(kind, None), features, seconds, whole_s).terms


def fit_error(model: KindModel, features: Sequence[Features], seconds: Floats) -> FitError:
    """How far the model is from these steps."""
    guesses = np.array([model.seconds(each) for each in features])
    off = np.abs(guesses - seconds)
    return FitError(
        num_steps=len(seconds),
        mape=round(float(np.mean(off / seconds)), 6),
        p95_abs_s=round(float(np.percentile(off, 95)), 9),
    )


def host_s(steps: Sequence[ObservedStep]) -> float:
    """Median of the time from a step's end to the next one's begin, where that was launched before; 0 if none was."""
    gaps = []
    for before, after in pairwise(steps):
        if after.step_id == before.step_id + 1 and after.launched_at < before.done_at:
            gaps.append(max(0.0, after.done_at - before.done_at - after.duration_s))
    return round(statistics.median(gaps), 9) if gaps else 0.0


# ---- inside


def _plain(of: Feature) -> _Column:
    return _Column(lambda features: float(getattr(features, of)), lambda s: [Term(of=of, s=s)])


def _columns(kind: StepKind, knee: float | None) -> list[_Column]:
    if kind is StepKind.DECODE:
        return [_plain("one"), _plain("decodes"), _plain("context")]
    prompt = [_plain("one"), *([_plain("tokens")] if knee is None else _around(knee)), _plain("attention")]
    return prompt if kind is StepKind.PREFILL else [*prompt, _plain("decodes"), _plain("context")]


def _around(knee: float) -> list[_Column]:
    """Tokens up to the knee, and beyond it: each its own slope, neither negative."""
    return [
        _Column(
            lambda features: min(float(features.tokens), knee),
            lambda s: [Term(of="tokens", s=s), Term(of="tokens", s=-s, above=knee)],
        ),
        _Column(lambda features: max(features.tokens - knee, 0.0), lambda s: [Term(of="tokens", s=s, above=knee)]),
    ]


class _Solution(NamedTuple):
    terms: tuple[Term, ...]
    error: float  #: root of the mean square of relative errors


def _solve(columns: Sequence[_Column], features: Sequence[Features], seconds: Floats, scale: Floats) -> _Solution:
    """Least squares of errors relative to `scale`."""
    matrix = np.array([[column.of(each) for column in columns] for each in features]) / scale[:, None]
    wanted = seconds / scale
    kept = [index for index in range(len(columns)) if np.any(matrix[:, index])]
    while True:
        norms = np.linalg.norm(matrix[:, kept], axis=0)
        found = np.linalg.lstsq(matrix[:, kept] / norms, wanted, rcond=None)[0] / norms
        if len(kept) == 1 or found.min() >= 0:
            break
        del kept[int(np.argmin(found * norms))]
    found = np.maximum(found, 0.0)
    error = float(np.sqrt(np.mean((matrix[:, kept] @ found - wanted) ** 2)))
    terms = [term for index, s in zip(kept, found.tolist(), strict=True) for term in columns[index].terms(s)]
    return _Solution(_joined(terms), error)


def _with_table(
    lines: _Solution, of: Feature, features: Sequence[Features], seconds: Floats, scale: Floats
) -> _Solution:
    """With what the lines miss at each size, interpolated; nothing at size 0, and beyond the last size as there. No
    table where it would make a step of some size next to nothing."""
    missed = (seconds - np.array([_sum(lines.terms, each) for each in features])) / scale
    sizes = np.array([float(getattr(each, of)) for each in features])
    groups = _groups(sizes)
    if len(groups) < 2:
        return lines
    xs = [float(sizes[group].mean()) for group in groups]
    ys = [float((missed[group] / scale[group]).sum() / (1 / scale[group] ** 2).sum()) for group in groups]
    table = Term(of=of, points=((0.0, 0.0), *zip(xs, ys, strict=True), (xs[-1] + 1, ys[-1])))
    if _is_short(lines.terms, table):
        return lines
    left = missed - np.array([table.seconds(x) for x in sizes]) / scale
    error = float(np.sqrt(np.mean(left**2)))
    return _Solution((*lines.terms, table), error) if error < GAIN * lines.error else lines


def _is_short(lines: Sequence[Term], table: Term) -> bool:
    """Whether a step of which nothing but the size is known would take less than MIN_LEFT of what the lines say, at one
    of the sizes between which all is straight."""
    own = [term for term in lines if term.of in ("one", table.of)]
    for size in (*(x for x, _ in table.points), *(term.above for term in own)):
        told = sum(term.seconds(1.0 if term.of == "one" else size) for term in own)
        if told + table.seconds(size) < MIN_LEFT * told:
            return True
    return False


def _groups(sizes: Floats) -> list[npt.NDArray[np.intp]]:
    """Indices of steps of one size or of neighbouring ones, enough in each, by size."""
    order = np.argsort(sizes, kind="stable")
    groups, begin = [], 0
    for end in range(1, len(order)):
        is_new_size = sizes[order[end]] != sizes[order[end - 1]]
        if is_new_size and end - begin >= MIN_AT_POINT and len(order) - end >= MIN_AT_POINT:
            groups.append(order[begin:end])
            begin = end
    return [*groups, order[begin:]]


def _sum(terms: Sequence[Term], features: Features) -> float:
    return sum(term.seconds(getattr(features, term.of)) for term in terms)


def _joined(terms: Sequence[Term]) -> tuple[Term, ...]:
    """One term for each feature and knee."""
    sums: dict[tuple[Feature, float], float] = {}
    for term in terms:
        sums[term.of, term.above] = sums.get((term.of, term.above), 0.0) + term.s
    return tuple(Term(of=of, s=s, above=above) for (of, above), s in sums.items())
