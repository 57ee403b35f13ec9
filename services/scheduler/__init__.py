"""The scheduler as a process."""
