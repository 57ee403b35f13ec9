"""Baton's decisions: four pure machines and what they decide with. Nothing here does I/O, reads a clock or imports torch."""
