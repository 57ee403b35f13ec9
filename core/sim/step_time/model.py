"""Seconds of a step from its features: one model for each kind of step."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from itertools import pairwise
from typing import Annotated

import msgspec

from baton.core.sim.step_time.features import Feature, Features, StepKind

#: of the quantiles of a residual
PROBABILITIES = (0.0, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99, 0.995, 1.0)
MIN_STEP_S = 1e-6  #: no step is shorter, whatever a model says outside of what it was fitted on

MAX_S = 1e6  #: nothing is longer

Seconds = Annotated[float, msgspec.Meta(ge=0, le=MAX_S)]
Slowdown = Annotated[float, msgspec.Meta(ge=1, le=16)]
Above = Annotated[float, msgspec.Meta(ge=0)]


class Term(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """`s` seconds for each unit of a feature beyond `above`; or, with `points`, seconds interpolated between them: the
    first and the last segment go on outside."""

    of: Feature = "one"
    s: float = 0.0
    above: Above = 0.0
    points: tuple[tuple[float, float], ...] = ()  #: (feature, seconds), features ascending; seconds may be negative

    def __post_init__(self) -> None:
        """Raises ValueError for points that are no table, or beside a slope."""
        xs = [x for x, _ in self.points]
        if not all(map(math.isfinite, (self.s, *xs, *(y for _, y in self.points)))):
            raise ValueError("a number is not finite")
        if any(abs(seconds) > MAX_S for seconds in (self.s, *(y for _, y in self.points))):
            raise ValueError(f"more than {MAX_S:g} s")
        if self.points and (self.s or self.above):
            raise ValueError("points or a slope, not both")
        if len(self.points) == 1 or any(a >= b for a, b in pairwise(xs)):
            raise ValueError("points: at least two, with ascending features")

    def seconds(self, value: float) -> float:
        if not self.points:
            return self.s * max(value - self.above, 0.0)
        right = min(max(bisect_right(self.points, (value, math.inf)), 1), len(self.points) - 1)
        (x0, y0), (x1, y1) = self.points[right - 1], self.points[right]
        return y0 + (y1 - y0) * (value - x0) / (x1 - x0)


class Piece(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """The sum of its terms, for steps whose `split` feature is at most `up_to`."""

    terms: Annotated[tuple[Term, ...], msgspec.Meta(min_length=1)]
    split: Feature = "decodes"
    up_to: float | None = None  #: None: for all that no piece before it took


class KindModel(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """The first piece that a step belongs to tells its duration."""

    pieces: Annotated[tuple[Piece, ...], msgspec.Meta(min_length=1)]
    noise: Annotated[float, msgspec.Meta(ge=0, le=2)] = 0.0  #: standard deviation of log(real / model)
    #: how much longer such a step takes while another executor of the same machine computes; 1: not at all
    neighbour_slowdown: Slowdown = 1.0
    #: quantiles of real / model at `PROBABILITIES`; without them residuals are log-normal
    residuals: tuple[Annotated[float, msgspec.Meta(gt=0)], ...] = ()

    def __post_init__(self) -> None:
        """Raises ValueError when a step could belong to no piece, a piece to no step, or residuals are no quantiles."""
        if self.residuals and len(self.residuals) != len(PROBABILITIES):
            raise ValueError(f"residuals: {len(self.residuals)} quantiles, not {len(PROBABILITIES)}")
        if any(a > b for a, b in pairwise(self.residuals)):
            raise ValueError("residuals: quantiles ascend")
        if self.pieces[-1].up_to is not None or any(piece.up_to is None for piece in self.pieces[:-1]):
            raise ValueError("the last piece, and no other, has no up_to")

    def seconds(self, features: Features) -> float:
        for piece in self.pieces:
            if piece.up_to is None or getattr(features, piece.split) <= piece.up_to:
                return sum([term.seconds(getattr(features, term.of)) for term in piece.terms])
        raise AssertionError("the last piece takes every step")

    def residual(self, normal: float) -> float:
        """By which factor a step is off, for a draw of the standard normal distribution."""
        if not self.residuals:
            return math.exp(self.noise * normal - self.noise * self.noise / 2)
        share = 0.5 * math.erfc(-normal / math.sqrt(2))
        right = min(max(bisect_right(PROBABILITIES, share), 1), len(PROBABILITIES) - 1)
        low, high = PROBABILITIES[right - 1 : right + 1]
        below, above = self.residuals[right - 1 : right + 1]
        return below + (above - below) * (share - low) / (high - low)


class StepModel(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Of one executor. A kind that it never runs may be left out; a mixed step without a model of its own takes as long
    as its prompt part, and its decodes what they take beyond the constant of a decode step."""

    prefill: KindModel | None = None
    decode: KindModel | None = None
    mixed: KindModel | None = None
    host_s: Seconds = 0.0  #: between two steps, while the device does nothing
    #: how much longer each of two steps takes that run at once; 2: as if one after the other
    lane_slowdown: Slowdown = 2.0

    def duration_s(self, features: Features, normal: float = 0.0) -> float:
        """`normal` is a draw of the standard normal distribution: the residual. Raises StepUnknown."""
        model = self._model(features.kind)
        seconds = self._joined(features) if model is None else model.seconds(features)
        noisy = model or self.prefill
        if normal and noisy is not None and noisy.noise:
            seconds *= noisy.residual(normal)
        return max(seconds, MIN_STEP_S) + self.host_s

    @property
    def is_noisy(self) -> bool:
        """Whether the duration of some step depends on the draw."""
        return any(kind is not None and kind.noise for kind in (self.prefill, self.decode, self.mixed))

    def neighbour_slowdown(self, kind: StepKind) -> float:
        """Of a step of this kind; one that is joined of two is slowed down as its prompt."""
        model = self._model(kind) or self.prefill
        return 1.0 if model is None else model.neighbour_slowdown

    def _model(self, kind: StepKind) -> KindModel | None:
        if kind is StepKind.PREFILL:
            return self.prefill
        return self.decode if kind is StepKind.DECODE else self.mixed

    def _joined(self, features: Features) -> float:
        if features.kind is not StepKind.MIXED or self.prefill is None or self.decode is None:
            raise StepUnknown(f"the profile has no model of a {features.kind} step")
        prompt = self.prefill.seconds(features)
        empty = features._replace(decodes=0, context=0)
        beyond = self.decode.seconds(features) - self.decode.seconds(empty)
        return prompt + max(beyond, 0.0)


class StepUnknown(Exception):
    """A step of a kind that the profile does not know."""


def affine(terms: Sequence[tuple[Feature, float]], noise: float = 0.0) -> KindModel:
    """One piece of plain slopes."""
    return KindModel(pieces=(Piece(terms=tuple(Term(of=of, s=s) for of, s in terms)),), noise=noise)
