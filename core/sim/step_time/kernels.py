"""A step-time model from measured times of kernels: each layer's matrix products by positions, attention by its shape,
the head by sampled rows. What these add up to is what a step takes on the device; the host's time comes on top.

Matrix products and the head are taken from their curves as they are. Attention is measured for one prompt chunk and
decodes of one context at a time; a step has several of each, so its part is fitted, for each kind of step, to the sums
that describe a step, on those measured shapes that the engine can meet at all.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from baton.core.errors import ServingError
from baton.core.sim.step_time.features import Features, StepKind
from baton.core.sim.step_time.fit import MIN_STEPS, Fit, fit_error, fit_part
from baton.core.sim.step_time.model import KindModel, Piece, StepModel, Term
from baton.core.sim.step_time.profile import FitError

ONCE = ("embedding", "final_layernorm")  #: kernels that a step runs once; all others run in each layer
TWICE = ("layernorm",)  #: in each layer

Curve = tuple[tuple[int, float], ...]  #: (positions or rows, seconds), ascending, at least two
Floats = npt.NDArray[np.float64]


class AttentionShape(NamedTuple):
    """One layer's attention as it was measured: one prompt chunk, and decodes of equal context; either may be none."""

    chunk: int  #: prompt tokens computed
    before: int  #: computed before them
    decodes: int
    context: int  #: of each decode
    seconds: float

    @property
    def features(self) -> Features:
        chunk = self.chunk
        attention = chunk * (self.before + chunk / 2)
        return Features(
            chunk, attention, int(chunk > 0), self.decodes, self.decodes * self.context, self.decodes + (chunk > 0)
        )


class KernelTables(NamedTuple):
    """Of one card and one model."""

    dense: Mapping[str, Curve]  #: by kernel, over the positions of a step
    head: Mapping[str, Curve]  #: by kernel, over its sampled rows
    attention: Sequence[AttentionShape]


class Reach(NamedTuple):
    """What a step of the engine may be."""

    positions: int  #: prompt tokens and decodes
    decodes: int
    kv_tokens: int  #: of all sequences together
    sequence: int  #: tokens of the longest
    captured: Sequence[int] = ()  #: positions for which graphs were captured, ascending: a step is padded to the next


class TooFewShapes(ServingError):
    """The attention table does not say what such steps take."""


def compose(tables: KernelTables, num_layers: int, reach: Reach, host_s: float) -> Fit:
    """Raises TooFewShapes for steps of prompts or of decodes that no measured shape is like."""
    products = Term(of="positions", points=_padded(_in_all(tables.dense, num_layers), reach))
    head = Term(of="rows", points=_in_all(tables.head, num_layers, has_layers=False))
    met = [shape for shape in tables.attention if _is_met(shape, reach)]
    models: dict[StepKind, KindModel] = {}
    errors: dict[str, FitError] = {}
    for kind in StepKind:
        chosen = [shape for shape in met if shape.features.kind is kind]
        if len(chosen) >= MIN_STEPS:
            models[kind], errors[kind.value] = _of_kind(kind, chosen, (products, head), num_layers)
        elif kind is not StepKind.MIXED:
            raise TooFewShapes(f"attention: {len(chosen)} rows of {kind} steps that the engine can meet: too few")
    found = StepModel(
        prefill=models[StepKind.PREFILL],
        decode=models[StepKind.DECODE],
        mixed=models.get(StepKind.MIXED),
        host_s=host_s,
    )
    return Fit(found, errors)


def _of_kind(
    kind: StepKind, shapes: Sequence[AttentionShape], curves: Sequence[Term], num_layers: int
) -> tuple[KindModel, FitError]:
    features = [shape.features for shape in shapes]
    attention = np.array([shape.seconds * num_layers for shape in shapes])
    rest = np.array([sum(term.seconds(getattr(each, term.of)) for term in curves) for each in features])
    terms = fit_part(kind, features, attention, attention + rest)
    model = KindModel(pieces=(Piece(terms=(*curves, *terms)),))
    return model, fit_error(model, features, attention + rest)


def _is_met(shape: AttentionShape, reach: Reach) -> bool:
    is_short = shape.before + shape.chunk <= reach.sequence and shape.context <= reach.sequence
    held = shape.before + shape.chunk + shape.decodes * shape.context
    is_step = shape.chunk + shape.decodes <= reach.positions and shape.decodes <= reach.decodes
    return is_short and is_step and held <= reach.kv_tokens


def _in_all(curves: Mapping[str, Curve], num_layers: int, has_layers: bool = True) -> Curve:
    """All kernels of a step together."""
    xs = sorted({x for curve in curves.values() for x, _ in curve})
    total: Floats = np.zeros(len(xs))
    for name, curve in curves.items():
        times = 1 if name in ONCE or not has_layers else num_layers * (2 if name in TWICE else 1)
        total += times * np.array([Term(points=curve).seconds(x) for x in xs])
    return tuple(zip(xs, total.tolist(), strict=True))


def _padded(curve: Curve, reach: Reach) -> Curve:
    """As long as the next captured size is, up to the largest of them."""
    sizes = [size for size in reach.captured if size <= reach.positions]
    if not sizes:
        return curve
    real = Term(points=curve)
    stairs: dict[int, float] = {}
    for before, size in pairwise([0, *sizes]):
        stairs[before + 1] = stairs[size] = real.seconds(size)
    first = sizes[-1] + 1
    stairs[first] = real.seconds(first)
    xs = [x for x, _ in curve]
    return (*stairs.items(), *curve[bisect_left(xs, first + 1) :])
