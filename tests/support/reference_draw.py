"""Sampling in its plainest form: sort everything, cut, add up, and look where the keyed number falls."""

from __future__ import annotations

import numpy as np


def plain_draw(logits: np.ndarray, uniform: float, temperature: float, top_k: int = 0, top_p: float = 1.0) -> int:
    """The token whose share of the distribution holds `uniform`: falling probability, ties by lower id."""
    scaled = logits / temperature
    order = np.argsort(-scaled, kind="stable")
    weights = np.exp(scaled[order] - scaled.max())
    if top_k:
        order, weights = order[:top_k], weights[:top_k]
    if top_p < 1.0:
        count = int(np.searchsorted(np.cumsum(weights), top_p * weights.sum())) + 1
        order, weights = order[:count], weights[:count]
    borders = np.cumsum(weights)
    index = int(np.searchsorted(borders, uniform * borders[-1], side="right"))
    return int(order[min(index, len(order) - 1)])


def distance_to_share(logits: np.ndarray, token: int, uniform: float, temperature: float, margin: float) -> float:
    """How far `uniform` is outside of the widest share of `token` that logits within `margin` of these allow.

    Tokens whose logits differ by less than twice the margin may change places in the order of the shares.
    """
    weights = np.exp((logits - logits.max()) / temperature)
    weights /= weights.sum()
    above = float(weights[logits > logits[token] + 2 * margin].sum())
    below = float(weights[logits >= logits[token] - 2 * margin].sum())
    return max(above - uniform, uniform - below, 0.0)
