"""The report as one page: a file that loads nothing, for whoever would rather look than read."""

from baton.services.loadgen.html.page import render

__all__ = ["render"]
