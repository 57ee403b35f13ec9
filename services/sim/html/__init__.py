"""A study as one page: what it found, as charts and tables, in a file that loads nothing."""

from baton.services.sim.html.page import Chart, Column, Line, Page, TableOf, render

__all__ = ["Chart", "Column", "Line", "Page", "TableOf", "render"]
