"""Loads that others recorded: one file for each format, each a stream of records that is read once and in order."""
