"""The simulator: the four machines under a virtual clock, with what the real world does to them."""
