"""Turning any source of a model into one folder that router and executor read."""
