"""`baton profile`: a step-time profile of a running executor, for `baton sim`."""
