"""Baton's decisions: four pure machines and what they decide with. No I/O, no clock, no torch."""
