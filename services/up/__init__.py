"""Starts and supervises a whole deployment on one machine."""
