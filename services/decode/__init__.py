"""Entry point of the decode executor."""
