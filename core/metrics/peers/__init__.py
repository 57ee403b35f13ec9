"""Definitions of other tools, one file each."""
