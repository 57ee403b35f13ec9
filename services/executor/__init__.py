"""The executor: one program that decides about steps, in three roles."""
