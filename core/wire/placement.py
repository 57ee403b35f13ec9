"""Why a prompt is computed where it is (R4): counted, told to the router with the place, and by it to the client."""

from __future__ import annotations

import enum


class PlacementReason(enum.StrEnum):
    """One of these for each placed attempt. Public: the values are labels of counters and header values."""

    PD = "pd"  #: on a prefill executor, and decoded on another
    CACHED = "cached"  #: where it decodes: what lies there of it already decided
    SHORT = "short"  #: where it decodes: little is to compute, so that the hand-off would take longer
    P_BUSY = "p_busy"  #: where it decodes: a prefill executor without its queue would have been sooner
    P_DOWN = "p_down"  #: where it decodes: no prefill executor lives
    UNIFIED = "unified"  #: on an executor that does both for all of its requests
