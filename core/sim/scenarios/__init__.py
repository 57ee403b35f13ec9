"""Scenarios of performance runs, a file of TOML each: `baton sim --scenario NAME`. A file fixes all parameters."""
