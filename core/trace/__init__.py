"""What happened in a process lately, and all processes' of it as one trace."""
